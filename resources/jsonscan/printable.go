package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// each is a byte 1 at all eight places of a word.
const each = 0x0101010101010101

// PrintableLength is how many bytes data begins with that stand for themselves in a string, of JSON and of YAML: printable ASCII but quotes
// and backslashes. Long texts are made of those, so they are looked at by eights.
func PrintableLength(data []byte) int {
	i := 0
	for ; i+8 <= len(data); i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		other := x | below(x, ' ') | below(x^'"'*each, 1) | below(x^'\\'*each, 1) | below(x^0x7f*each, 1)
		if other &= 0x80 * each; other != 0 {
			return i + bits.TrailingZeros64(other)/8
		}
	}
	for i < len(data) && isPrintable(data[i]) {
		i++
	}
	return i
}

func isPrintable(c byte) bool { return c >= ' ' && c < 0x7f && c != '"' && c != '\\' }

// below sets the highest bit of the bytes of x that are less than n, which is at most 0x80. It is right for the lowest of them and for those
// before it.
func below(x, n uint64) uint64 { return (x - n*each) &^ x }
