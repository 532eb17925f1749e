package expressions

import (
	"encoding/json"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// A rule in CEL depends on the path to its schema, and there only on the fields that it names. So the first object of a definition does not have to
// wait until the whole of a large schema is read for the sake of a few rules.

// Field is the field of a schema that contains its rules.
const Field = "x-kubernetes-validations"

// partWriter writes the part of a schema that its rules depend on.
type partWriter struct {
	index *jsonscan.Index
	out   []byte
	// ruled are the sorted positions in the text at which rules begin, and words the alphanumeric words of the rules.
	ruled []int
	words sets.Set[string]
}

// within is the place of a schema.
type within struct {
	// root: the schema is the object's own. ruled: rules of this schema or of one around it may read it.
	root, ruled bool
	// keys are the names of the key fields of the list whose items the schema describes.
	keys sets.Set[string]
}

// Part returns the part of a stored schema from which Compile makes the same closures as from the whole. ok is false where the schema cannot be read.
func Part(text []byte) (part []byte, ok bool) {
	index, ok := jsonscan.NewIndex(string(text))
	if !ok {
		return nil, false
	}
	w := partWriter{index: index, words: sets.New[string]()}
	w.findRules()
	ok = w.node(index.Whole(), within{root: true})
	return w.out, ok
}

// findRules finds all possible rules: an ordinary field may have the same name.
func (w *partWriter) findRules() {
	const name = `"` + Field + `":`
	text := w.index.Of(w.index.Whole())
	for at := 0; ; {
		i := strings.Index(text[at:], name)
		if i < 0 {
			return
		}
		w.ruled = append(w.ruled, at+i)
		at += i + len(name)
		w.index.Elements(w.index.ValueAt(at), func(rule jsonscan.Span) bool {
			return w.index.Members(rule, func(name string, v jsonscan.Span) bool {
				if name == "rule" {
					w.say(w.index.Of(v))
				}
				return true
			})
		})
	}
}

// say adds the words of a rule.
func (w *partWriter) say(text string) {
	var rule string
	if json.Unmarshal([]byte(text), &rule) == nil {
		w.words.Insert(strings.FieldsFunc(rule, isOdd)...)
	}
}

// isOdd reports whether CEL may write a name with the character in another way.
func isOdd(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
}

// hasRules reports whether a schema contains rules.
func (w *partWriter) hasRules(node jsonscan.Span) bool {
	i := sort.SearchInts(w.ruled, node.From())
	return i < len(w.ruled) && node.Has(w.ruled[i])
}

// node writes a schema.
func (w *partWriter) node(node jsonscan.Span, at within) (ok bool) {
	at, below, ok := w.read(node, at)
	return ok && w.members(node, func(name string, v jsonscan.Span) (needed, ok bool) {
		switch object := w.index.Of(v)[0] == '{'; {
		case name == "description":
			return false, true
		case object && name == "properties":
			return true, w.properties(v, at)
		case object && (name == "items" || name == "additionalProperties"):
			return true, w.node(v, below)
		}
		return true, w.copied(v)
	})
}

// read determines the places of a schema's properties (inside) and of its items (below).
func (w *partWriter) read(node jsonscan.Span, at within) (inside, below within, ok bool) {
	ok = w.index.Members(node, func(name string, v jsonscan.Span) bool {
		switch name {
		case Field:
			at.ruled = true
		case "x-kubernetes-list-map-keys":
			below.keys = sets.New[string]()
			return w.index.Elements(v, func(key jsonscan.Span) bool {
				below.keys.Insert(strings.Trim(w.index.Of(key), `"`))
				return true
			})
		}
		return true
	})
	below.ruled = at.ruled
	return at, below, ok
}

// properties writes the needed properties, or the first one where none is needed: to CEL, an object without properties is of another type.
func (w *partWriter) properties(object jsonscan.Span, at within) bool {
	some := false
	write := func(name string, v jsonscan.Span) (needed, ok bool) {
		switch {
		case at.root && (name == "metadata" || name == "kind" || name == "apiVersion"), at.keys.Has(name):
			needed, ok = true, w.copied(v)
		case w.hasRules(v), at.ruled && (w.words.Has(name) || strings.ContainsFunc(name, isOdd)):
			needed, ok = true, w.node(v, within{ruled: at.ruled})
		default:
			ok = true
		}
		some = some || needed
		return needed, ok
	}
	began := len(w.out)
	if ok := w.members(object, write); some || !ok {
		return ok
	}
	w.out = w.out[:began]
	return w.members(object, func(_ string, v jsonscan.Span) (needed, ok bool) {
		if some {
			return false, true
		}
		some = true
		return true, w.node(v, within{ruled: at.ruled})
	})
}

// members writes the needed members of an object; write writes the value of a member.
func (w *partWriter) members(object jsonscan.Span, write func(name string, v jsonscan.Span) (needed, ok bool)) (ok bool) {
	w.out = append(w.out, '{')
	begin := len(w.out)
	ok = w.index.Members(object, func(name string, v jsonscan.Span) bool {
		before := len(w.out)
		if before > begin {
			w.out = append(w.out, ',')
		}
		w.out = append(append(append(w.out, '"'), name...), '"', ':')
		needed, ok := write(name, v)
		if !needed {
			w.out = w.out[:before]
		}
		return ok
	})
	w.out = append(w.out, '}')
	return ok
}

func (w *partWriter) copied(v jsonscan.Span) bool {
	w.out = append(w.out, w.index.Of(v)...)
	return true
}
