package upstream

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// QuantityText returns where in a resource.Quantity the field is, a string, in which it remembers its text. MarshalJSON
// writes that when there is one, and it need not be what a Quantity would say now: the text survives a change of Format.
// It returns false where a Quantity is made otherwise.
func QuantityText() (offset uintptr, known bool) {
	f, known := reflect.TypeFor[resource.Quantity]().FieldByName("s")
	return f.Offset, known && f.Type == reflect.TypeFor[string]()
}
