package jsonscan_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// FuzzScan: the functions accept only JSON, and agree on the ends of values.
func FuzzScan(f *testing.F) {
	for _, s := range []string{``, `null`, ` [1, -2.5e+7, 0.1E9, true, false, "é\u00e9\ud83d\ude00\n"] `, `{"a":{"b":[{}]},"":""}`, `01`, `-`, `1.`, `1e`, `+1`,
		`"\ud800"`, `"\x"`, "\"\x01\"", "\"\xff\"", `"a\\"`, `"a\"`, `{"a":1,}`, `[1 2]`, `nul`, `"<>&"`, "\"\u2028\"",
		`{"of eight bytes and more":["so many\"","12345678","1234567\\","\\\\\\\\\\\\\\\\"],"{":-1.5e7,"}":{},"éééé":[[],true]}`,
		`"1234567\"89012345"`, `"so many\\\\"`, `"12345678`, `"1234567\`, `{"a":"12345678`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		whole := jsonscan.New(data)
		if whole.Skip() && whole.End() && !json.Valid(data) {
			t.Errorf("%q is taken", data)
		}
		if jsonscan.Plain(data, 50) {
			copied, err := json.Marshal(json.RawMessage(data))
			if err != nil || string(copied) != string(data) {
				t.Errorf("%q is plain, and written as %q, %v", data, copied, err)
			}
		}
		if got, want := jsonscan.EndOfString(data, 0), endOfString(data); got != want || jsonscan.EndOfString(string(data), 0) != want {
			t.Errorf("%q as a string ends at %d, want %d", data, got, want)
		}
		scanner, again := jsonscan.New(data), jsonscan.New(data)
		isText := scanner.Peek() == '"'
		text, ok := scanner.Text()
		raw, skipped := again.Raw()
		if isText && (ok != skipped || ok && scanner.At() != again.At()) {
			t.Errorf("%q: that a text is read is %t, and that one is gone past %t, up to %d and %d", data, ok, skipped, scanner.At(), again.At())
		}
		if skipped {
			checkUnread(t, raw)
		}
		if ok {
			var want string
			if err := json.Unmarshal(raw, &want); err != nil || text != want || !utf8.ValidString(text) {
				t.Errorf("%q is read as %q, want %q, %v", raw, text, want, err)
			}
			if end := jsonscan.EndOfString(raw, 0); end != len(raw) || end != jsonscan.EndOfString(string(raw), 0) {
				t.Errorf("%q ends at %d", raw, end)
			}
		}
	})
}

// endOfString is jsonscan.EndOfString, byte by byte, for a string at the beginning of the text.
func endOfString(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// checkUnread compares the end of a value as found without checking its content with the actual end.
func checkUnread(t *testing.T, value []byte) {
	var list bytes.Buffer
	list.WriteByte('[')
	if err := json.Compact(&list, value); err != nil {
		t.Fatalf("%q: %v", value, err)
	}
	want := list.String()[1:]
	list.WriteString("," + want + "]")
	s, n := jsonscan.New(list.Bytes()), 0
	ok := s.Elements(func() bool {
		text, ok := s.Unread()
		n++
		return ok && text == want
	})
	if !ok || !s.End() || n != 2 {
		t.Errorf("%s: not gone past what is not read, but up to %d", list.Bytes(), s.At())
	}
	var spaced bytes.Buffer
	_ = json.Indent(&spaced, []byte(want), "", " ")
	s = jsonscan.New(append(spaced.Bytes(), ",1]"...))
	if text, ok := s.Unread(); !ok || text != spaced.String() {
		t.Errorf("%s is gone past as %q", spaced.Bytes(), text)
	}
	cut := jsonscan.New([]byte(want[:len(want)-1]))
	if text, ok := cut.Unread(); ok && (want[0] == '"' || want[0] == '{' || want[0] == '[') {
		t.Errorf("%s is gone past as %s", want[:len(want)-1], text)
	}
}

// Every kind of number is skipped as a whole, and recognised.
func TestNumber(t *testing.T) {
	for text, integer := range map[string]bool{"0": true, "-0": true, "10": true, "-7": true, "1.5": false, "1e5": false, "1E+05": false, "-1.25e-7": false} {
		s := jsonscan.New([]byte(" " + text + ","))
		got, is, ok := s.Number()
		if got != text || is != integer || !ok || s.Peek() != ',' {
			t.Errorf("%s: %q, %v, %v", text, got, is, ok)
		}
	}
	for _, text := range []string{"", "-", ".5", "1.", "1.e5", "1e", "1e+", "x"} {
		s := jsonscan.New([]byte(text))
		if got, _, ok := s.Number(); ok {
			t.Errorf("%q is the number %q", text, got)
		}
	}
}
