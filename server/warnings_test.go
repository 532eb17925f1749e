package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Warning headers have each text once, within the limits for proxies.
func TestWarnings(t *testing.T) {
	for name, tc := range map[string]struct{ say, want []string }{
		"each once":              {say: []string{"a", "b", "a", ""}, want: []string{`299 - "a"`, `299 - "b"`}},
		"quotes are escaped":     {say: []string{`unknown field "x"`}, want: []string{`299 - "unknown field \"x\""`}},
		"one that fits in all":   {say: []string{strings.Repeat("x", 4096)}, want: []string{`299 - "` + strings.Repeat("x", 4096) + `"`}},
		"too much is cut":        {say: []string{strings.Repeat("x", 4000), strings.Repeat("ü", 300)}, want: []string{`299 - "` + strings.Repeat("x", 256) + `"`, `299 - "` + strings.Repeat("ü", 256) + `"`}},
		"what no header can say": {say: []string{"a\nb\x00", "c"}, want: []string{`299 - "c"`}},
	} {
		t.Run(name, func(t *testing.T) {
			w := &warnings{header: http.Header{}}
			for _, text := range tc.say {
				w.AddWarning("", text)
			}
			if diff := cmp.Diff(tc.want, w.header.Values("Warning")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManyWarnings(t *testing.T) {
	w := &warnings{header: http.Header{}}
	for i := range 1000 {
		w.AddWarning("", strings.Repeat("x", 300)+string(rune('a'+i%26))+strings.Repeat("y", i))
	}
	all := strings.Join(w.header.Values("Warning"), "")
	if n := len(w.header.Values("Warning")); n == 0 || len(all) > 2*warningsTotal {
		t.Errorf("%d warnings of %d bytes", n, len(all))
	}
}
