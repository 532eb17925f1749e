package views

import (
	"regexp"
	"strconv"
	"strings"
)

// filter is the one condition that is understood: a member of the elements of a list equals a text.
var filter = regexp.MustCompile(`^\[\?\(\s*@\.([A-Za-z0-9_-]+)\s*==\s*(?:"([^"\\]*)"|'([^'\\]*)')\s*\)\]`)

// parsed is a JSONPath of a definition, as far as it is one that leads to one value: through members, elements by their number, and
// at most once through the first element for which a filter holds.
type parsed struct {
	path          Path
	found         bool
	rest          Path
	member, value string
}

// parse reads such a JSONPath; false: it is another one.
func parse(text string) (p parsed, ok bool) {
	text = strings.TrimSpace(text)
	text = strings.TrimPrefix(strings.TrimSuffix(strings.TrimPrefix(text, "{"), "}"), "$")
	for text != "" {
		var step Step
		// U+0000 ends a text that is handed to a database.
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
	// A quotation mark or a backslash cannot be said in a path of SQLite, and U+0000 in no statement.
	return step, rest, step.Member != "" && !strings.ContainsAny(step.Member, "\"\\*\x00")
}

// member reads a name after a dot. A backslash lets a dot be part of it.
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
