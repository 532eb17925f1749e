// Package equality is upstream's semantic equality (k8s.io/apimachinery/pkg/api/equality) at a lower cost.
//
// Upstream walks two values by reflection, remembers every pair it meets and calls its functions by reflection, too.
// Strategies and validation compare whole specs in this way, several times in every update. Here the walk is compiled
// once per Go type, when the first values of that type are compared, and then reads memory. The answers are the same:
//
//   - nil and empty lists are equal, and so are nil and empty maps.
//   - Quantities, times and FieldsV1 are compared by upstream's functions, and so is any other type that has a function.
//   - The value of an interface is compared by its type; a type without a comparer (arrays, functions, structs with
//     unexported fields) is left to upstream's walk, which panics where it always did.
//   - A list, a map or a struct is equal to itself at the same address, even if there is a NaN in it.
//
// There is one difference: upstream can compare values with cycles, which no API type can have; here they end in a
// stack overflow.
//
//	equality.go  the entry, and equality with one more function
//	comparer.go  the comparer of a type
//	walk.go      the comparison
//	register.go  functions by which upstream's own code uses comparers (resources/upstream lists the types)
package equality
