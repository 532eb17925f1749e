package handlers

import "testing"

// Each byte counts once per level; brackets in strings do not count.
func TestNesting(t *testing.T) {
	for text, want := range map[string]int64{
		``:                 0,
		`12`:               0,
		`"[{"`:             0,
		`{}`:               1,
		`[[]]`:             4,
		`{"a":1}`:          6,
		`{"a":"]"}`:        8,
		`{"a":"\"]}"}`:     11,
		`{"a":"\\"}`:       9,
		`[{"a\"{":[1]},2]`: 28,
		`["a`:              2,
	} {
		if got := nesting([]byte(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}
