package jsonscan

import "bytes"

// Plain reports whether encoding/json would copy b unchanged: it is a value without white space, has no characters that would
// be escaped for HTML, and at most depth nested values.
func Plain(b []byte, depth int) bool { return skipPlain(b, 0, depth) == len(b) }

// skipPlain skips a value of at most depth nested values, itself included.
func skipPlain(b []byte, i, depth int) int {
	if i < 0 || i >= len(b) || depth == 0 {
		return nowhere
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
	end, _ := number(b, i)
	return end
}

func skipPlainObject(b []byte, i, depth int) int {
	if at(b, i) == '}' {
		return i + 1
	}
	for {
		i = skipPlainString(b, i)
		if at(b, i) != ':' {
			return nowhere
		}
		i = skipPlain(b, i+1, depth)
		switch at(b, i) {
		case '}':
			return i + 1
		case ',':
			i++
		default:
			return nowhere
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
			return nowhere
		}
	}
}

func skipPlainString(b []byte, i int) int {
	if at(b, i) != '"' {
		return nowhere
	}
	for i++; i < len(b); i++ {
		c := b[i]
		if Unescaped[c] {
			continue
		}
		switch {
		case c == '"':
			return i + 1
		case c == '\\':
			if i = skipEscape(b, i); i == nowhere {
				return nowhere
			}
		case c < 0x80 || c == 0xe2: // U+2028 and U+2029, which are escaped, begin with an e2
			return nowhere
		}
	}
	return nowhere
}

// skipEscape returns the index of the last byte of an escape.
func skipEscape(b []byte, i int) int {
	switch c := at(b, i+1); {
	case escapes[c] != 0:
		return i + 1
	case c != 'u':
		return nowhere
	}
	if _, ok := hex(b[i:]); !ok {
		return nowhere
	}
	return i + 5
}

func skipPlainWord(b []byte, i int, word string) int {
	if !bytes.HasPrefix(b[i:], []byte(word)) {
		return nowhere
	}
	return i + len(word)
}
