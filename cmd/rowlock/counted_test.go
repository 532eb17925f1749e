package main

import "testing"

// One is singular; many and none are plural.
func TestCounted(t *testing.T) {
	for got, want := range map[string]string{
		counted(0, "row"):                              "0 rows",
		counted(1, "row"):                              "1 row",
		counted(int64(2), "row"):                       "2 rows",
		counted(1, "thing is", "things are") + " bad":  "1 thing is bad",
		counted(12, "thing is", "things are") + " bad": "12 things are bad",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
