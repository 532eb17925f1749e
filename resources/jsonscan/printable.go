package jsonscan

import (
	"encoding/binary"
	"math/bits"
)

// each has the byte 1 at all eight places of a word.
const each = 0x0101010101010101

// PrintableLength is the number of bytes at the beginning of data that need no escape in a string of JSON or YAML: printable ASCII except
// quotes and backslashes. Long texts consist of those, so it reads eight at a time.
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

// below sets the highest bit of the bytes of x that are less than n, which is at most 0x80. The result is right for the lowest such byte and
// for all bytes below it.
func below(x, n uint64) uint64 { return (x - n*each) &^ x }
