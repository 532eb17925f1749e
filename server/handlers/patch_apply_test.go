package handlers

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// FuzzApplyConfiguration checks that configurations decoded as JSON mean the same in YAML.
func FuzzApplyConfiguration(f *testing.F) {
	for _, value := range []string{`"v"`, `"a` + "\x7f" + `b"`, `"a` + "\xff" + `"`, `"\ud800"`, `"\ud83d\ude00"`, "\"\u0085x\"", "\"\u2028x\"", "\"\ufeff\"", `"\/"`,
		`{"` + strings.Repeat("k", 1100) + `":1}`, "{\"a\"\n:1}", "\t1", `"\u0000"`, `"😀"`, `{"<<":1,"~":2}`, `1e0`, `-0`, `-0.0`, `1.50`, `1.0`, `1e18`, `1e19`, `1e-7`, `[1.0,-2]`, `9223372036854775808`, `18446744073709551616`, `123456789012345678`, `[[],{},null,true,"true","2001-01-01"]`} {
		f.Add([]byte(`{"data":{"k":` + value + `}}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got, want map[string]any
		if !json.Valid(body) || !readJSON(body, &got) {
			return
		}
		if err := yaml.Unmarshal(body, &want); err != nil {
			t.Fatalf("%q is no YAML: %v", body, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-YAML +JSON):\n%s", body, diff)
		}
	})
}
