package upstream

import (
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// QuantityText returns the offset in a resource.Quantity of the string field that caches its text. MarshalJSON writes
// the text if there is one, and it may differ from the value's present text: it survives a change of Format. It returns
// false if a Quantity has another layout.
func QuantityText() (offset uintptr, known bool) {
	f, known := reflect.TypeFor[resource.Quantity]().FieldByName("s")
	return f.Offset, known && f.Type == reflect.TypeFor[string]()
}
