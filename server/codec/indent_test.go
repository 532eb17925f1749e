package codec

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzIndent: JSON is indented as json.Indent does it, wherever it is cut into writes.
func FuzzIndent(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `{"a":[{},[],{"b":null}],"c":"{[,:\"\\"}`, `[1,true,"\\\""," "]`, `"x"`, "{\"a\":1}\n"} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, step uint8) {
		var compact, want, got bytes.Buffer
		if json.Compact(&compact, data) != nil {
			return
		}
		if err := json.Indent(&want, compact.Bytes(), "", "  "); err != nil {
			t.Fatal(err)
		}
		in := &indenter{w: &got}
		for rest := compact.Bytes(); len(rest) > 0; {
			n := min(int(step)+1, len(rest))
			if written, err := in.Write(rest[:n]); written != n || err != nil {
				t.Fatal(written, err)
			}
			rest = rest[n:]
		}
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s becomes\n%s\nwant\n%s", data, got.Bytes(), want.Bytes())
		}
	})
}
