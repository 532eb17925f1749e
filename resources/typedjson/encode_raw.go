package typedjson

import (
	"bytes"
	"strings"
)

// notPlain is what the functions below return, which follow JSON from an index and return the index behind what they
// found, where the text is not JSON, is not surely what encoding/json would copy as it is, or is too deep.
const notPlain = -1

// skipPlain follows a value, which may have up to depth others around each other in it.
func skipPlain(b []byte, i, depth int) int {
	if i < 0 || i >= len(b) || depth == 0 {
		return notPlain
	}
	switch b[i] {
	case '"':
		return skipPlainString(b, i)
	case '{':
		return skipPlainObject(b, i+1, depth-1)
	case '[':
		return skipPlainArray(b, i+1, depth-1)
	case 't':
		return skipPlainWord(b, i, "true")
	case 'f':
		return skipPlainWord(b, i, "false")
	case 'n':
		return skipPlainWord(b, i, "null")
	}
	return skipPlainNumber(b, i)
}

func skipPlainObject(b []byte, i, depth int) int {
	if at(b, i) == '}' {
		return i + 1
	}
	for {
		i = skipPlainString(b, i)
		if at(b, i) != ':' {
			return notPlain
		}
		i = skipPlain(b, i+1, depth)
		switch at(b, i) {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return notPlain
		}
	}
}

func skipPlainArray(b []byte, i, depth int) int {
	if at(b, i) == ']' {
		return i + 1
	}
	for {
		i = skipPlain(b, i, depth)
		switch at(b, i) {
		case ']':
			return i + 1
		case ',':
			i++
		default:
			return notPlain
		}
	}
}

// at returns the byte at an index, 0 where there is none. No JSON has a 0.
func at(b []byte, i int) byte {
	if i < 0 || i >= len(b) {
		return 0
	}
	return b[i]
}

func skipPlainString(b []byte, i int) int {
	if at(b, i) != '"' {
		return notPlain
	}
	for i++; i < len(b); i++ {
		c := b[i]
		if unescaped[c] {
			continue
		}
		switch {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = skipEscape(b, i); i == notPlain {
				return notPlain
			}
		case c < 0x80 || c == 0xe2: // U+2028 and U+2029, which are escaped, begin with an e2
			return notPlain
		}
	}
	return notPlain
}

// skipEscape returns the index of the last byte of an escape.
func skipEscape(b []byte, i int) int {
	c := at(b, i+1)
	if c != 'u' {
		if c == 0 || strings.IndexByte(`"\/bfnrt`, c) < 0 {
			return notPlain
		}
		return i + 1
	}
	for j := i + 2; j < i+6; j++ {
		if c := at(b, j); !isDigit(c) && (c|' ' < 'a' || c|' ' > 'f') {
			return notPlain
		}
	}
	return i + 5
}

func skipPlainWord(b []byte, i int, word string) int {
	if !bytes.HasPrefix(b[i:], []byte(word)) {
		return notPlain
	}
	return i + len(word)
}

func skipPlainNumber(b []byte, i int) int {
	if at(b, i) == '-' {
		i++
	}
	if at(b, i) == '0' {
		i++
	} else if i = skipDigits(b, i); i == notPlain {
		return notPlain
	}
	if at(b, i) == '.' {
		if i = skipDigits(b, i+1); i == notPlain {
			return notPlain
		}
	}
	if at(b, i)|' ' == 'e' {
		i++
		if c := at(b, i); c == '+' || c == '-' {
			i++
		}
		i = skipDigits(b, i)
	}
	return i
}

// skipDigits follows one digit or more.
func skipDigits(b []byte, i int) int {
	if !isDigit(at(b, i)) {
		return notPlain
	}
	for isDigit(at(b, i)) {
		i++
	}
	return i
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
