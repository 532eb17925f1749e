package views

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameMax is how many bytes of a name Postgres keeps.
const nameMax = 63

// viewName is that of the resource. One that is too long is cut, and ends with what tells it from others that begin so.
func viewName(resource string) string { return cutName(resource, 4) }

// cutName cuts a name that is too long, and puts so many bytes of its hash at the end.
func cutName(resource string, hashed int) string {
	if len(resource) <= nameMax {
		return resource
	}
	sum := sha256.Sum256([]byte(resource))
	return fmt.Sprintf("%s~%x", resource[:nameMax-1-2*hashed], sum[:hashed])
}

// Together are views that can be in one database: of each resource the first, and with names that differ. Where names that were cut are the same, which
// somebody can have meant to happen, each of them has more of the hash: none is taken for another, whichever was there first.
func Together(all []View) []View {
	together := make([]View, 0, len(all))
	there, named := map[string]bool{}, map[string]int{}
	for _, v := range all {
		if !there[v.Resource] {
			there[v.Resource] = true
			named[v.Name]++
			together = append(together, v)
		}
	}
	for i, v := range together {
		if named[v.Name] > 1 {
			together[i].Name = cutName(v.Resource, 16)
		}
	}
	return together
}

// columnNames gives out names of columns, each once.
type columnNames map[string]bool

// next is the name of a column that kubectl prints under a title: in lower case, with _ for all but letters, the marks upon them, and digits, of whatever
// script. Empty: it has none, or is there already.
func (n columnNames) next(title string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(title) {
		within := b.Len() > 0 && !strings.HasSuffix(b.String(), "_")
		switch {
		case r != utf8.RuneError && unicode.In(r, unicode.Letter, unicode.Digit), within && unicode.Is(unicode.Mark, r):
			b.WriteRune(r)
		case within:
			b.WriteByte('_')
		}
	}
	name := strings.TrimSuffix(b.String(), "_")
	if common[name] {
		name = "printed_" + name
	}
	if end := nameMax; len(name) > end {
		for !utf8.RuneStart(name[end]) {
			end-- // not in the middle of a letter
		}
		name = name[:end]
	}
	if name == "" || n[name] {
		return ""
	}
	n[name] = true
	return name
}
