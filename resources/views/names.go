package views

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameMax is the number of bytes of a name that Postgres keeps.
const nameMax = 63

// viewName is the view name of a resource. A name that is too long is cut, and ends with a hash that distinguishes it from others with the same
// beginning.
func viewName(resource string) string { return cutName(resource, 4) }

// cutName cuts a name that is too long, and appends the given number of bytes of its hash.
func cutName(resource string, hashed int) string {
	if len(resource) <= nameMax {
		return resource
	}
	sum := sha256.Sum256([]byte(resource))
	return fmt.Sprintf("%s~%x", resource[:nameMax-1-2*hashed], sum[:hashed])
}

// Together selects views that can be in one database: the first of each resource, with distinct names. If cut names are equal, which a user may have
// caused on purpose, each of them gets more of the hash: none is taken for another, whichever was first.
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

// columnNames records the names of columns, so that each is used once, with the last number that was added to one.
type columnNames map[string]int

// next is the column name for a title that kubectl prints: in lower case, with _ for all characters but letters, combining marks, and digits, in any
// script. A name that is used already gets a number: _2 and so on. Empty: there is no such name.
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
	if name = cutText(name, nameMax); name == "" {
		return ""
	}
	first := name
	for n[name] > 0 {
		n[first]++
		number := fmt.Sprintf("_%d", n[first])
		name = cutText(first, nameMax-len(number)) + number
	}
	n[name] = 1
	return name
}

// cutText cuts a text that has more than most bytes between two characters.
func cutText(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
