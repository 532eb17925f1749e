package views

import (
	"regexp"
	"strconv"
	"strings"
)

// filter is the one supported condition: a member of the elements of a list equals a text.
var filter = regexp.MustCompile(`^\[\?\(\s*@\.([A-Za-z0-9_-]+)\s*==\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\)\]`)

// parsed is a JSONPath of a definition, if it leads to one value: through members, elements by their number, and at most once
// through the first element that a filter matches.
type parsed struct {
	path          Path
	found         bool
	rest          Path
	member, value string
}

// parse parses such a JSONPath; false: it is another one.
func parse(text string) (p parsed, ok bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "$")
	for text != "" {
		var step Step
		// U+0000 ends a text that is passed to a database.
		if m := filter.FindStringSubmatch(text); m != nil && !p.found && !strings.Contains(m[0], "\x00") {
			p.found, p.member, p.value = true, m[1], m[2]+m[3]
			text = text[len(m[0]):]
			continue
		}
		if step, text, ok = nextStep(text); !ok {
			return p, false
		}
		if p.found {
			p.rest = append(p.rest, step)
		} else {
			p.path = append(p.path, step)
		}
	}
	return p, len(p.path) > 0 && (!p.found || len(p.rest) > 0)
}

// nextStep takes one step off a JSONPath.
func nextStep(text string) (step Step, rest string, ok bool) {
	switch {
	case strings.HasPrefix(text, "['"), strings.HasPrefix(text, `["`):
		end := strings.Index(text[2:], text[1:2]+"]")
		if end < 0 {
			return step, "", false
		}
		step.Member, rest = strings.ReplaceAll(text[2:2+end], `\.`, "."), text[2+end+2:]
	case text[0] == '[':
		number, after, closed := strings.Cut(text[1:], "]")
		n, err := strconv.ParseUint(number, 10, 15)
		return Step{Index: int(n)}, after, closed && err == nil
	case text[0] == '.':
		step.Member, rest = member(text[1:])
	}
	// A path of SQLite cannot contain a quotation mark or a backslash, and no statement can contain U+0000.
	return step, rest, step.Member != "" && !strings.ContainsAny(step.Member, "\"\\*\x00")
}

// member reads a name behind a dot. A backslash escapes a dot in it.
func member(text string) (name, rest string) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			b.WriteByte(text[i])
		case text[i] == '.' || text[i] == '[':
			return b.String(), text[i:]
		default:
			b.WriteByte(text[i])
		}
	}
	return b.String(), ""
}
