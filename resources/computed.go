package resources

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// ComputedQuery is what a get or a list asks of a type whose objects are found out when they are asked for. The type may leave out
// what does not match, and need not: who asks selects of what it is given.
type ComputedQuery struct {
	// Namespace is that of the request; empty: all, or the type has none.
	Namespace string
	// Name is that of the object that is to be got; empty: it is a list.
	Name string
	// Fields is the field selector of a list; nil: there is none.
	Fields fields.Selector
	// Limit is how many objects a list is to have at most; 0: all there are.
	Limit int64
	// Continue is what the page before ended with (ComputedPage); empty: it is the first one.
	Continue string
}

// ComputedPage is what there is.
type ComputedPage struct {
	// Objects are in the hub form.
	Objects []runtime.Object
	// Continue is where a list with a limit goes on; empty: this is its end. Types that have few objects return all, whatever the limit.
	Continue string
}

// Selected returns the value that an object has to have in a field to be selected.
func (q *ComputedQuery) Selected(field string) (value string, ok bool) {
	if q.Fields == nil {
		return "", false
	}
	return q.Fields.RequiresExactMatch(field)
}
