package typedjson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// FuzzRaw: the output of a type's own MarshalJSON is compacted and escaped, and refused when it is not JSON.
func FuzzRaw(f *testing.F) {
	for _, s := range []string{
		``, ` `, `null`, `true`, `false`, `nul`, `truer`, `0`, `-0`, `-`, `01`, `1.`,
		`1.5`, `.5`, `1e5`, `1E+05`, `1e`, `-1.25e-7`, `1 2`, `{}`, `[]`, `{`, `[`, `[1,]`, `[,]`,
		`{"a":1,}`, `{"a"}`, `{"a":}`, `{a:1}`, `{"a":{"b":[true,null,{}]}}`, ` { "a" : [ 1 , 2 ] } `, "{\"a\":1}\n", `{"k:{\"name\":\"a\"}":{}}`,
		`"\u00e9\uD83D\ude00\/\b\f\n\r\t\\\""`, `"\x"`, `"\u00e9<"`, `"\n<"`,
		`"\u12g4"`, `"\u12`, `"\`, `"`, "\"\x01\"", "\"\x7f\"", `"<>&"`, "\"\u2028\u2029é\xff\"", "\"\xe2\x80\"",
		`{}}`, `"a""b"`, strings.Repeat("[", 101) + strings.Repeat("]", 101), strings.Repeat("[", 99),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		want, err := json.Marshal(json.RawMessage(raw))
		e := encoder{}
		got := e.appendRaw([]byte("before"), raw)
		if e.failed != (err != nil) {
			t.Fatalf("%q: failed is %v, error %v", raw, e.failed, err)
		}
		if got, ok := bytes.CutPrefix(got, []byte("before")); !e.failed && (!ok || !bytes.Equal(got, want)) {
			t.Fatalf("%q is written as %q, want %q", raw, got, want)
		}
	})
}

// TestPlainIsCopied: plain JSON from a client or the store is not parsed again by encoding/json.
func TestPlainIsCopied(t *testing.T) {
	for _, s := range []string{
		`{"f:metadata":{"f:labels":{".":{},"k:{\"name\":\"a\"}":{}}}}`, `[1,-2.5e+7,true,false,null,"é\u00e9",[],{}]`, `0`,
	} {
		if !jsonscan.Plain([]byte(s), maxNesting) {
			t.Errorf("%s is not plain", s)
		}
	}
}
