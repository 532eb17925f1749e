package views

import "reflect"

// View is a view of the objects of one resource.
type View struct {
	// Name is the name of the view: that of the resource, as far as databases accept it.
	Name string
	// Resource is the resource, as in resources.Key.
	Resource string
	// Secret: neither the object nor the values of its data are shown, nor an annotation that may hold them.
	Secret bool
	// Columns come between those that all views have.
	Columns []Column
}

// Kind says how a value in an object becomes the value of a column.
type Kind string

const (
	// Text is a text, or the text at Other if the path has no value; any other value as its JSON.
	Text Kind = "text"
	// Number is a number; NULL where there is another value.
	Number Kind = "number"
	// Count is a Number; 0 where there is none.
	Count Kind = "count"
	// Bool is a boolean, which SQLite has as 1 and 0; NULL where there is another value.
	Bool Kind = "boolean"
	// JSON is any value as JSON.
	JSON Kind = "JSON"
	// Size is the number of elements of a list, or of members of an object, together with those at Other.
	Size Kind = "size"
	// Join is the texts at Other in the elements of a list, separated by commas; the elements themselves, where Other is nil.
	Join Kind = "list"
	// Ratio is two numbers separated by a slash; a missing one is 0.
	Ratio Kind = "ratio"
	// Pair is two texts separated by a slash; NULL where one is missing.
	Pair Kind = "pair"
	// Find is the value at Other, of the kind Found, in the first element of a list whose member Member equals Value.
	Find Kind = "found"
	// Computed is what kubectl computes from several fields. Value says what.
	Computed Kind = "computed"
)

// Column is a value in an object.
type Column struct {
	Name          string
	Kind          Kind
	Path          Path
	Other         Path
	Member, Value string // for Find; Value for Computed, too
	Found         Kind   // for Find: Number, Bool or, also where it is empty, Text
}

// Path leads to a value in an object.
type Path []Step

// Step is a member of an object, or an element of a list.
type Step struct {
	Member string
	Index  int // used where Member is empty
}

// Members is a path through members of objects only.
func Members(names ...string) Path {
	p := make(Path, len(names))
	for i, name := range names {
		p[i] = Step{Member: name}
	}
	return p
}

// LastApplied is the annotation in which kubectl keeps the applied object, data of Secrets included.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// common are the names of the columns that all views have. If kubectl prints a column with such a name, its name gets the prefix
// printed_.
var common = map[string]bool{
	"namespace": true, "name": true, "created": true, "age": true, "labels": true, "annotations": true, "owner": true, "owner_uid": true,
	"deleting_since": true, "uid": true, "resource_version": true, "spec": true, "status": true, "object": true,
}

// same reports whether two views are equal.
func (v View) same(other View) bool { return reflect.DeepEqual(v, other) }
