package codec

import "io"

// indenter indents compact JSON as json.Indent does with two spaces, while it is written, so that a long list need not be in memory as a whole. It
// drops white space between values.
type indenter struct {
	w     io.Writer
	out   []byte // reused by each write
	depth int
	// opened is set after the start of an object or array, before its first value, which goes on a new line.
	opened bool
	// quoted is set within a string; escaped is set after a backslash in it.
	quoted, escaped bool
}

// indentedPiece is how many bytes are buffered before a write.
const indentedPiece = 64 << 10

// Write implements io.Writer. A piece that would become longer than indentedMost, such as an item of a list, is written on one line: no such piece
// begins within a string.
func (n *indenter) Write(p []byte) (int, error) {
	n.out = n.out[:0]
	if len(p) > mayBeDeep && indentedLen(p, n.depth) > indentedMost {
		return n.onALine(p)
	}
	for _, c := range p {
		if n.quoted {
			n.inString(c)
			n.out = append(n.out, c)
		} else {
			n.between(c)
		}
		if len(n.out) >= indentedPiece {
			if _, err := n.w.Write(n.out); err != nil {
				return 0, err
			}
			n.out = n.out[:0]
		}
	}
	if _, err := n.w.Write(n.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// onALine writes a piece without indentation. The next one is indented again.
func (n *indenter) onALine(p []byte) (int, error) {
	if n.opened {
		n.line()
		if _, err := n.w.Write(n.out); err != nil {
			return 0, err
		}
	}
	for _, c := range p {
		if n.quoted {
			n.inString(c)
			continue
		}
		switch c {
		case '"':
			n.quoted = true
		case '{', '[':
			n.depth++
		case '}', ']':
			n.depth--
		}
	}
	n.opened = false // such a piece ends after a value
	return n.w.Write(p)
}

// inString processes a byte within a string.
func (n *indenter) inString(c byte) {
	n.quoted = c != '"' || n.escaped
	n.escaped = c == '\\' && !n.escaped
}

// between processes a byte outside strings.
func (n *indenter) between(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '}', ']':
		n.depth--
		if !n.opened {
			n.line()
		}
		n.opened = false
		n.out = append(n.out, c)
		return
	}
	if n.opened {
		n.opened = false
		n.line()
	}
	n.out = append(n.out, c)
	switch c {
	case '"':
		n.quoted = true
	case '{', '[':
		n.depth++
		n.opened = true
	case ',':
		n.line()
	case ':':
		n.out = append(n.out, ' ')
	}
}

func (n *indenter) line() {
	n.out = append(n.out, '\n')
	for range n.depth {
		n.out = append(n.out, "  "...)
	}
}
