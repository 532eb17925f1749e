package codec

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzIndent checks that JSON is indented as by json.Indent, however it is split into writes.
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

// longest records the largest write.
type longest struct {
	bytes.Buffer
	most int
}

func (l *longest) Write(p []byte) (int, error) {
	l.most = max(l.most, len(p))
	return l.Buffer.Write(p)
}

// Deeply nested JSON is not in memory as a whole while it is indented, and an item that would become too long is written on one line, between
// indented ones.
func TestIndentingWhatIsDeep(t *testing.T) {
	deep := func(levels, values int) string {
		return `{"a\\\"[":` + strings.Repeat("[", levels) + strings.Repeat("0,", values) + "0" + strings.Repeat("]", levels) + `}`
	}
	for item, short := range map[string]bool{deep(5000, 0): false, deep(9000, 5000): true} { // 50 and 250 MB, in two pieces
		var out longest
		in := &indenter{w: &out}
		for _, piece := range []string{`{"items":[`, `{"b":[]}`, `,`, item[:5000], item[5000:], `,`, `{"c":{"d":1}}`, `]}`} {
			if _, err := in.Write([]byte(piece)); err != nil {
				t.Fatal(err)
			}
		}
		if !short && out.most > 2*indentedPiece {
			t.Errorf("%d bytes were written at once", out.most)
		}
		if short && out.Len() > 100<<20 {
			t.Errorf("it became %d bytes", out.Len())
		}
		for _, want := range []string{"{\n  \"items\": [\n    {\n      \"b\": []\n    },\n    {", "},\n    {\n      \"c\": {\n        \"d\": 1\n      }\n    }\n  ]\n}"} {
			if !bytes.Contains(out.Bytes(), []byte(want)) {
				t.Errorf("of %d bytes, it is not %q around what is deep", len(item), want)
			}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, out.Bytes()); err != nil || compact.String() != `{"items":[{"b":[]},`+item+`,{"c":{"d":1}}]}` {
			t.Errorf("of %d bytes, it is another document: %v", len(item), err)
		}
	}
}
