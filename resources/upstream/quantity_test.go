package upstream

import (
	"reflect"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestQuantityRemembersItsText: the field is where QuantityText says, and MarshalJSON writes it whatever else is in the
// Quantity. No other field could decide the output.
func TestQuantityRemembersItsText(t *testing.T) {
	var fields []string
	for f := range reflect.TypeFor[resource.Quantity]().Fields() {
		fields = append(fields, f.Name+" "+f.Type.String())
	}
	want := []string{"i resource.int64Amount", "d resource.infDecAmount", "s string", "Format resource.Format"}
	if diff := cmp.Diff(want, fields); diff != "" {
		t.Errorf("a Quantity is made otherwise: %s", diff)
	}
	offset, known := QuantityText()
	if !known {
		t.Fatal("the field is not known")
	}
	q := resource.MustParse("1500m")
	remembered := (*string)(unsafe.Add(unsafe.Pointer(&q), offset))
	if *remembered != "1500m" {
		t.Fatalf("it remembers %q", *remembered)
	}
	q.Format = resource.BinarySI
	*remembered = "as it was"
	if got, err := q.MarshalJSON(); err != nil || string(got) != `"as it was"` {
		t.Errorf("MarshalJSON writes %s, %v", got, err)
	}
}
