package resources

import (
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
)

// ComputedQuery is a get or a list of a type whose objects are computed on request. The type may leave out objects that do not match,
// but need not: the caller filters the result.
type ComputedQuery struct {
	// Namespace is the namespace of the request; empty: all namespaces, or a cluster-scoped type.
	Namespace string
	// Name is the name of the object of a get; empty: the request is a list.
	Name string
	// Fields is the field selector of a list; nil: none.
	Fields fields.Selector
	// Limit is the greatest number of objects of a page; 0: no limit.
	Limit int64
	// Continue is the token at the end of the page before (ComputedPage); empty: this is the first page.
	Continue string
}

// ComputedPage is the result of a ComputedQuery.
type ComputedPage struct {
	// Objects are in the hub form.
	Objects []runtime.Object
	// Continue is the token of the next page; empty: this is the last one. Types that have few objects return all, whatever the limit.
	Continue string
}

// Selected returns the value that the field selector requires of a field.
func (q *ComputedQuery) Selected(field string) (value string, ok bool) {
	if q.Fields == nil {
		return "", false
	}
	return q.Fields.RequiresExactMatch(field)
}
