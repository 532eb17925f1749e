package resources

import (
	"math"
	"testing"
)

// The parameter of a query and the field of an object are read by different rules.
func TestResourceVersions(t *testing.T) {
	const bad = -1
	for s, want := range map[string]struct{ parameter, object int64 }{
		"":                     {bad, 0},
		"0":                    {0, 0},
		"12":                   {12, 12},
		"9223372036854775807":  {math.MaxInt64, math.MaxInt64},
		"9223372036854775808":  {math.MaxInt64, math.MaxInt64},
		"18446744073709551615": {math.MaxInt64, math.MaxInt64},
		"18446744073709551616": {bad, bad},
		"-1":                   {bad, bad},
		"+1":                   {bad, bad},
		"1.0":                  {bad, bad},
		" 1":                   {bad, bad},
	} {
		for name, read := range map[string]struct {
			of   func(string) (int64, error)
			want int64
		}{"parameter": {RevisionOfParameter, want.parameter}, "object": {revisionOfObject, want.object}} {
			got, err := read.of(s)
			if (err != nil) != (read.want == bad) || err == nil && got != read.want {
				t.Errorf("%s %q: %d, %v, want %d", name, s, got, err, read.want)
			}
		}
	}
}
