package jsonscan

import (
	"unicode/utf16"
	"unicode/utf8"
)

var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// AppendEscape appends the character of the escape sequence at the beginning of a text (RFC 8259, section 7), and returns
// the length of the sequence, 0 when there is none. Halves of surrogate pairs are not covered.
func AppendEscape(dst, text []byte) (out []byte, n int) {
	if len(text) < 2 {
		return dst, 0
	}
	if text[1] != 'u' {
		if c := escapes[text[1]]; c != 0 {
			return append(dst, c), 2
		}
		return dst, 0
	}
	high, ok := hex(text)
	if !ok {
		return dst, 0
	}
	if !utf16.IsSurrogate(high) {
		return utf8.AppendRune(dst, high), 6
	}
	low, ok := hex(text[6:])
	r := utf16.DecodeRune(high, low)
	if !ok || r == utf8.RuneError {
		return dst, 0
	}
	return utf8.AppendRune(dst, r), 12
}

// hex reads \u and four digits.
func hex(text []byte) (r rune, ok bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	for _, c := range text[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
