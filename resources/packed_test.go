package resources

import (
	"strings"
	"testing"
)

// DataIn returns the data of a packed object, whatever the size of the room, and an unpacked object's own data.
func TestDataIn(t *testing.T) {
	same := func(set map[string]string) map[string]string { return set }
	place := func(data []byte) []byte { return data }
	var room []byte
	for _, text := range []string{strings.Repeat("long ", 100), "short", strings.Repeat("longer ", 200), `<\u003c> `} {
		stored := `{"metadata":{"resourceVersion":"7"},"text":"` + text + `"}`
		for _, stored := range []string{stored, stored + string(notShown)} {
			o := LoadObject(Key{"pods", "n", "p"}, 7, []byte(stored), nil, nil)
			packed := o.Packed(place, same)
			if got := string(packed.DataIn(&room)); got != string(packed.Unpacked().Data) || got != string(o.Data) {
				t.Errorf("%s is read as %s", o.Data, got)
			}
			if got := o.DataIn(nil); &got[0] != &o.Data[0] {
				t.Errorf("%s is copied", got)
			}
		}
	}
}
