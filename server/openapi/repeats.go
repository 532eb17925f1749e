package openapi

import (
	"encoding/binary"
	"errors"
)

// The archive repeats itself over distances that gzip, which looks back 32 KiB, does not see: the operations of one group
// are those of the next with other names. So it is stored without its repetitions, which halves it.
//
// What is stored is the length of the text, the number of bytes of instructions, the instructions, and the literal bytes. An
// instruction is three numbers: so many literal bytes follow, then so many bytes that are in the text from a position on. What
// is literal after the last instruction ends the text.

// repeatWindow is how many bytes have to be the same for a repetition.
const repeatWindow = 64

// packRepeats returns a text without its repetitions.
func packRepeats(text []byte) []byte {
	known := map[string]int{} // windows that begin at multiples of half a window, by what they have
	var instructions, literals []byte
	literal, noted := 0, 0 // from where on nothing is written; up to where windows are noted
	for i := 0; i+repeatWindow <= len(text); {
		for ; noted+repeatWindow <= i; noted += repeatWindow / 2 {
			if _, ok := known[string(text[noted:noted+repeatWindow])]; !ok {
				known[string(text[noted:noted+repeatWindow])] = noted
			}
		}
		from, ok := known[string(text[i:i+repeatWindow])]
		if !ok {
			i++
			continue
		}
		begin, end := i, i+repeatWindow
		for begin > literal && from > 0 && text[from-1] == text[begin-1] {
			begin, from = begin-1, from-1
		}
		for end < len(text) && text[from+end-begin] == text[end] {
			end++
		}
		literals = append(literals, text[literal:begin]...)
		instructions = binary.AppendUvarint(instructions, uint64(begin-literal))
		instructions = binary.AppendUvarint(instructions, uint64(end-begin))
		instructions = binary.AppendUvarint(instructions, uint64(from))
		i, literal = end, end
	}
	packed := binary.AppendUvarint(nil, uint64(len(text)))
	packed = binary.AppendUvarint(packed, uint64(len(instructions)))
	packed = append(packed, instructions...)
	return append(append(packed, literals...), text[literal:]...)
}

var errRepeats = errors.New("OpenAPI archive: a repetition of what is not there")

// unpackRepeats is the reverse of packRepeats.
func unpackRepeats(packed []byte) ([]byte, error) {
	failed := false
	next := func(from *[]byte) int {
		n, size := binary.Uvarint(*from)
		if size <= 0 || n > 1<<30 {
			failed = true
			return 0
		}
		*from = (*from)[size:]
		return int(n)
	}
	length, size := next(&packed), next(&packed)
	if failed || size > len(packed) {
		return nil, errRepeats
	}
	instructions, literals := packed[:size], packed[size:]
	text := make([]byte, 0, length)
	for len(instructions) > 0 {
		literal, repeated, from := next(&instructions), next(&instructions), next(&instructions)
		if failed || literal > len(literals) || len(text)+literal+repeated > length || from >= len(text)+literal {
			return nil, errRepeats
		}
		text = append(text, literals[:literal]...)
		literals = literals[literal:]
		for repeated > 0 { // a repetition may overlap what it writes
			n := min(repeated, len(text)-from)
			text = append(text, text[from:from+n]...)
			from, repeated = from+n, repeated-n
		}
	}
	if text = append(text, literals...); len(text) != length {
		return nil, errRepeats
	}
	return text, nil
}
