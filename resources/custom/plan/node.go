package plan

// Node is the plan of the values at one place of a schema, for all equal places. It is immutable.
type Node struct {
	// foreign: only upstream's validator knows a feature of the schema.
	foreign bool
	// types are the allowed JSON types. None: all are.
	types    typeSet
	nullable bool
	// formatted: if there is a format, a wrong type is not always refused.
	formatted bool

	enum []any
	text textRules
	// int32 values are within 32 bits.
	int32    bool
	noFloats bool // floats are left to upstream
	min, max *bound

	item       *Node
	size       bounds // of lists
	list       listType
	keys       []string
	fields     map[string]*Node
	required   []string
	properties bounds // of the number of fields
	// open: fields other than the listed ones are known, too. entry is their node; nil: their schema defines nothing.
	open  bool
	entry *Node
	// closed: other fields are not valid.
	closed bool

	allOf, anyOf, oneOf []*Node
	not                 *Node

	// These fields are only for pruning and defaulting.
	preserve, embedded bool
	fallback           any // the default; nil: there is none
	defaults           []string
	// odd: here or below, the two forms of the schema do not match, and the plan covers nothing.
	odd bool
}

// textRules are the rules for strings.
type textRules struct {
	length  bounds
	pattern *pattern // nil: there is none
	// format is the format that strings are checked for; empty: there is none, or it is unknown.
	format string
}

// bounds are the least and the greatest number of elements.
type bounds struct{ min, max int64 }

func (b bounds) hold(n int64) bool { return b.min <= n && n <= b.max }

// bound is the minimum or the maximum of a number, in the two forms that upstream compares.
type bound struct {
	whole     int64
	float     float64
	exclusive bool
}

type typeSet uint8

const (
	aBoolean typeSet = 1 << iota
	aString
	anInteger
	aNumber
	anArray
	anObject
)

var typesByName = map[string]typeSet{
	"boolean": aBoolean, "string": aString, "integer": anInteger, "number": aNumber, "array": anArray, "object": anObject,
}

// listType determines which items of a list are equal.
type listType uint8

const (
	anyList listType = iota
	setList
	mapList
)

// field finds the node of a field, nil if the schema does not define it. known is false for a field that has to be pruned.
func (n *Node) field(name string) (child *Node, known bool) {
	if child, known = n.fields[name]; known {
		return child, true
	}
	return n.entry, n.open
}
