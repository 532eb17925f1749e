package codec

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Indented JSON gets a buffer of its exact size.
func TestIndentedLen(t *testing.T) {
	for _, text := range []string{`{}`, `[]`, `1`, `""`, `{"a":[]}`, `{"a":{},"b":[1,2,{"c":null}]}`, `{"a\"{[,:":"]}\\","b":":"}`, `[[[[1]],2]]`,
		strings.Repeat(`{"a":`, 500) + "1" + strings.Repeat("}", 500)} {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(text), "", "  "); err != nil {
			t.Fatal(err)
		}
		if got := indentedLen([]byte(text), 0); got != want.Len() {
			t.Errorf("%.60s: %d, want %d", text, got, want.Len())
		}
		if out, err := finish([]byte(text), Format{Media: JSON, Pretty: true}); err != nil || !bytes.Equal(out, want.Bytes()) || cap(out) > want.Len()+want.Len()/4+64 {
			t.Errorf("%.60s: %d bytes in %d, %v", text, len(out), cap(out), err)
		}
	}
	for _, text := range []string{"", "}", "]]]]", `"`, `"\`, "{"} {
		if _, err := finish([]byte(text), Format{Media: JSON, Pretty: true}); err == nil {
			t.Errorf("%q is no JSON", text)
		}
	}
}

// JSON that would become too long is sent on one line, and has no YAML: the response bounds the memory.
func TestIndentedTooDeep(t *testing.T) {
	text := []byte(strings.Repeat("[", 9000) + strings.Repeat("0,", 5000) + "0" + strings.Repeat("]", 9000))
	if n := indentedLen(text, 0); n <= indentedMost {
		t.Fatal(n)
	}
	if out, err := finish(text, Format{Media: JSON, Pretty: true}); err != nil || string(out) != string(text)+"\n" {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if out, err := finish(text, Format{Media: YAML}); !apierrors.IsNotAcceptable(err) {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}
