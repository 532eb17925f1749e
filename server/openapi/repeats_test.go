package openapi

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzRepeats checks that unpacking inverts packing, and that other input causes an error or yields some text, without a panic.
func FuzzRepeats(f *testing.F) {
	long := strings.Repeat("a group has the operations of another group, with the names of its own; ", 3)
	for _, text := range []string{"", "a", long, long + "x" + long, "y" + long[5:] + long, strings.Repeat("z", 1000), strings.Repeat(long, 20)} {
		f.Add([]byte(text))
		f.Add(packRepeats([]byte(text)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, text := range [][]byte{data, bytes.Repeat(data, 3), bytes.Join([][]byte{data, data}, []byte("between"))} {
			if got, err := unpackRepeats(packRepeats(text)); err != nil || !bytes.Equal(got, text) {
				t.Fatalf("%q: %q, %v", text, got, err)
			}
		}
		if len(data) > 0 && data[0] < 0x80 { // the claimed length is bounded
			if got, err := unpackRepeats(data); err == nil && len(got) != int(data[0]) {
				t.Fatalf("%d bytes, want %d", len(got), data[0])
			}
		}
	})
}

func TestRepeatsAreFound(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdefghijklmnopqrstuvwxyz", 1000))
	if n := len(packRepeats(text)); n > 200 {
		t.Errorf("%d bytes", n)
	}
	for name, packed := range map[string]string{"nothing": "", "no instructions": "\x05\x09", "too short": "\x05\x00abc", "too long": "\x02\x00abc",
		"from behind the end": "\x09\x03\x01\x08\x05a", "more than the length": "\x03\x03\x01\x08\x00a", "no literals": "\x03\x03\x02\x01\x00a"} {
		if got, err := unpackRepeats([]byte(packed)); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}
