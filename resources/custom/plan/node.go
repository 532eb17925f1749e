package plan

// Node is the plan of the values at one place of a schema, for all places that say the same. It does not change once it is made.
type Node struct {
	// foreign: the schema says something that only upstream's validator knows.
	foreign bool
	// types are the JSON types that are allowed. None: all are.
	types    typeSet
	nullable bool
	// formatted: a type that does not fit is not always refused, where there is a format.
	formatted bool

	enum []any
	text textRules
	// int32 values are within 32 bits.
	int32    bool
	noFloats bool // floats are upstream's to judge
	min, max *bound

	item       *Node
	size       bounds // of lists
	list       listType
	keys       []string
	fields     map[string]*Node
	required   []string
	properties bounds // how many there are
	// open: other fields than those listed are known, too. entry is their node; nil: their schema says nothing.
	open  bool
	entry *Node
	// closed: other fields are not valid.
	closed bool

	allOf, anyOf, oneOf []*Node
	not                 *Node

	// What only pruning and defaulting go by.
	preserve, embedded bool
	fallback           any // the default; nil: there is none
	defaults           []string
	// odd: here or below the two forms of the schema are not of one, and the plan covers nothing.
	odd bool
}

// textRules are those of strings.
type textRules struct {
	length  bounds
	pattern *pattern // nil: there is none
	// format is one that strings are held against; empty: there is none, or nobody knows it.
	format string
}

// bounds are the least and the most of something that is counted.
type bounds struct{ min, max int64 }

func (b bounds) hold(n int64) bool { return b.min <= n && n <= b.max }

// bound is the minimum or the maximum of a number, in the two forms by which upstream compares it.
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

// listType is how the items of a list are told apart.
type listType uint8

const (
	anyList listType = iota
	setList
	mapList
)

// field finds the node of a field, nil for one of which the schema says nothing. known is false for a field that is to be pruned.
func (n *Node) field(name string) (child *Node, known bool) {
	if child, known = n.fields[name]; known {
		return child, true
	}
	return n.entry, n.open
}
