package upstream

import (
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// QuantityText returns the offset in a resource.Quantity of the string field that caches its text. MarshalJSON writes
// the text if there is one, and it may differ from the value's present text: it survives a change of Format. It returns
// false if a Quantity has another layout.
func QuantityText() (offset uintptr, known bool) {
	f, known := reflect.TypeFor[resource.Quantity]().FieldByName("s")
	return f.Offset, known && f.Type == reflect.TypeFor[string]()
}

// Quantities compute with decimals as long as their text and their exponent say: 1e999999999 takes minutes and 540 MB to compare with zero, and a
// number of three million digits takes seconds to read. No quantity that anybody means comes near these bounds.
const (
	mostQuantityDigits   = 1000
	mostQuantityExponent = 1000
)

// CostlyQuantity tells whether the text may be that of a quantity that takes resource.Quantity long to read or to compare.
func CostlyQuantity(text string) bool {
	text = strings.TrimSpace(text)
	if len(text) > mostQuantityDigits {
		return strings.Trim(text, "+-.0123456789eEinumkKMGTP") == ""
	}
	i := strings.LastIndexAny(text, "eE")
	if i < 0 || strings.Trim(text[:i], "+-.0123456789") != "" {
		return false
	}
	n, err := strconv.ParseInt(text[i+1:], 10, 64)
	return err == nil && (n > mostQuantityExponent || n < -mostQuantityExponent)
}
