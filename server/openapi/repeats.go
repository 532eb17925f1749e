package openapi

import (
	"encoding/binary"
	"errors"
)

// The archive has repetitions at distances beyond gzip's window of 32 KiB: the operations of one group are those of the next with other names. It
// is stored without these repetitions, which halves its size.
//
// The format is the length of the text, the number of bytes of instructions, the instructions, and the literal bytes. An instruction is three
// numbers: that many literal bytes come next, then that many bytes of the text from a position on. The literals after the last instruction end the
// text.

// repeatWindow is the least length in bytes of a repetition.
const repeatWindow = 64

// packRepeats returns a text without its repetitions.
func packRepeats(text []byte) []byte {
	known := map[string]int{} // positions of windows, at multiples of half a window, by their contents
	var instructions, literals []byte
	literal, noted := 0, 0 // start of the unwritten text; end of the recorded windows
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

// unpackRepeats is the inverse of packRepeats.
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
		for repeated > 0 { // a repetition may overlap its own copy
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
