package jsonscan

import "math/bits"

// nowhere is the result of functions that skip a part of JSON and return the index behind it, when they did not find the
// part.
const nowhere = -1

// Unescaped are the bytes that need no escape in strings: printable ASCII except quotes, backslashes and the characters
// that are escaped for HTML.
var Unescaped = func() (set [256]bool) {
	for c := ' '; c <= 0x7f; c++ {
		set[c] = true
	}
	for _, c := range `"\<>&` {
		set[c] = false
	}
	return set
}()

// EndOfString returns the end of the string that begins with a quote at i, 0 when it does not end. It does not check the
// content: the text is this server's own.
func EndOfString[T []byte | string](text T, i int) int {
	for i++; i < len(text); i++ {
		if i+8 <= len(text) { // most of it does not end the string, so this reads eight bytes at a time
			x := wordAt(text, i)
			found := (below(x^'"'*each, 1) | below(x^'\\'*each, 1)) & (0x80 * each)
			if found == 0 {
				i += 7
				continue
			}
			i += bits.TrailingZeros64(found) / 8
		}
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return 0
}

// EndOfValue returns the end of the value that begins at i, 0 when it does not end. It does not check the content either.
func EndOfValue[T []byte | string](text T, i int) int {
	for depth := 0; i < len(text); {
		switch text[i] {
		case '"':
			if i = EndOfString(text, i); i == 0 {
				return 0
			}
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			i++
			for i < len(text) && text[i] > ' ' && text[i] != ',' && text[i] != '}' && text[i] != ']' {
				i++
			}
		}
		if depth <= 0 {
			return i
		}
		for i < len(text) && (text[i] == ',' || text[i] == ':' || text[i] <= ' ') {
			i++
		}
	}
	return 0
}

// wordAt is eight bytes of a text, the first of them lowest.
func wordAt[T []byte | string](text T, i int) uint64 {
	t := text[i : i+8]
	return uint64(t[0]) | uint64(t[1])<<8 | uint64(t[2])<<16 | uint64(t[3])<<24 | uint64(t[4])<<32 | uint64(t[5])<<40 | uint64(t[6])<<48 | uint64(t[7])<<56
}

// number skips a number, and reports whether it is an integer.
func number(b []byte, i int) (end int, integer bool) {
	if at(b, i) == '-' {
		i++
	}
	if at(b, i) == '0' {
		i++
	} else if i = digits(b, i); i == nowhere {
		return nowhere, false
	}
	integer = true
	if at(b, i) == '.' {
		integer = false
		if i = digits(b, i+1); i == nowhere {
			return nowhere, false
		}
	}
	if at(b, i)|' ' == 'e' {
		integer = false
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		i = digits(b, i)
	}
	return i, integer
}

// digits skips one digit or more.
func digits(b []byte, i int) int {
	start := i
	for i < len(b) && isDigit(b[i]) {
		i++
	}
	if i == start {
		return nowhere
	}
	return i
}

// at returns the byte at an index, 0 behind the end. JSON contains no byte 0.
func at(b []byte, i int) byte {
	if i < 0 || i >= len(b) {
		return 0
	}
	return b[i]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
