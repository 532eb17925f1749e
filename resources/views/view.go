package views

import "reflect"

// View is what is shown of the objects of one resource.
type View struct {
	// Name is that of the view: of the resource, as far as databases take it.
	Name string
	// Resource is the resource, as in resources.Key.
	Resource string
	// Secret: neither the object nor the values of its data are shown, nor an annotation that may hold them.
	Secret bool
	// Columns are shown between those that all views have.
	Columns []Column
}

// Kind says how a value becomes that of a column.
type Kind string

const (
	// Text is a text; what is none as its JSON.
	Text Kind = "text"
	// Number is a number; NULL where there is another value.
	Number Kind = "number"
	// Count is a Number; 0 where there is none.
	Count Kind = "count"
	// Bool is a boolean, which SQLite has as 1 and 0; NULL where there is another value.
	Bool Kind = "boolean"
	// JSON is any value as JSON.
	JSON Kind = "JSON"
	// Size is how many elements a list has, or members an object, together with those at Other.
	Size Kind = "size"
	// Join is the texts at Other in the elements of a list, with commas between; of the elements themselves, where Other is nil.
	Join Kind = "list"
	// Ratio is two numbers with a slash between; what is missing is 0.
	Ratio Kind = "ratio"
	// Pair is two texts with a slash between; NULL where one is missing.
	Pair Kind = "pair"
	// Find is the text at Other in the first element of a list whose member Member is Value.
	Find Kind = "found"
)

// Column is a value in an object.
type Column struct {
	Name          string
	Kind          Kind
	Path          Path
	Other         Path
	Member, Value string // of Find
}

// Path leads to a value in an object.
type Path []Step

// Step is a member of an object, or an element of a list.
type Step struct {
	Member string
	Index  int // where Member is empty
}

// Members is the path through members of objects alone.
func Members(names ...string) Path {
	p := make(Path, len(names))
	for i, name := range names {
		p[i] = Step{Member: name}
	}
	return p
}

// LastApplied is the annotation in which kubectl keeps what was applied, data of Secrets included.
const LastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// common are the names of the columns that all views have. Where kubectl prints one of such a name, it is called printed_ and that.
var common = map[string]bool{
	"namespace": true, "name": true, "created": true, "age": true, "labels": true, "annotations": true, "owner": true, "owner_uid": true,
	"deleting_since": true, "uid": true, "resource_version": true, "spec": true, "status": true, "object": true,
}

// same tells whether two views are.
func (v View) same(other View) bool { return reflect.DeepEqual(v, other) }
