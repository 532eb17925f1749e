package custom

import (
	"context"
	"testing"
	"unsafe"

	"github.com/rowlock/rowlock/resources"
)

// The row of a group stays as long as the group has a definition. Its key shares no memory with the text of the first definition.
func TestGroupRowKeepsNoText(t *testing.T) {
	text := []byte("example.com, and many kilobytes of schemas")
	group := unsafe.String(&text[0], len("example.com"))
	w, err := raiseGroup(t.Context(), noRows{}, group)
	if err != nil {
		t.Fatal(err)
	}
	if w.Key.Name != group || unsafe.StringData(w.Key.Name) == unsafe.StringData(group) {
		t.Errorf("the key has %q of the text itself", w.Key.Name)
	}
}

// noRows is an empty store.
type noRows struct{ resources.Reader }

func (noRows) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	return nil, resources.ErrNotFound
}
