package jsonscan

import (
	"fmt"
	"strings"
	"testing"
)

// TestPrintableLength tries each byte at each place, among plain bytes and among others.
func TestPrintableLength(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, behind := range []string{"", `"`, "\x00\xff\"\\\x7f ~!#[]", strings.Repeat("a", 20)} {
				before := strings.Repeat("~ !#[]", 4)[:at]
				text := before + string([]byte{byte(c)}) + behind
				want := at
				for want < len(text) && isPrintable(text[want]) {
					want++
				}
				if got := PrintableLength([]byte(text)); got != want {
					t.Errorf("%q: %d, want %d", text, got, want)
				}
			}
		}
	}
}

func BenchmarkPrintableLength(b *testing.B) {
	for _, n := range []int{5, 20, 200} {
		text := []byte(strings.Repeat("a", n) + `"`)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if PrintableLength(text) != n {
					b.Fatal()
				}
			}
		})
	}
}
