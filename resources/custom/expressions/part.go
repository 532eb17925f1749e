package expressions

import (
	"encoding/json"
	"sort"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// A rule in CEL depends on the way to the schema that it is in, and of that on the fields that it names. So the first object of a definition
// does not wait until all of a large schema is read for the sake of a few rules in it.

// Field is the field of a schema that has its rules.
const Field = "x-kubernetes-validations"

// partWriter writes the part of a schema that its rules depend on.
type partWriter struct {
	index *jsonscan.Index
	out   []byte
	// ruled are the places in the text where rules begin, in their order, and words what the rules consist of, without what is neither letter nor digit.
	ruled []int
	words sets.Set[string]
}

// within is where a schema is.
type within struct {
	// root: of the object itself. ruled: rules here or around look at it.
	root, ruled bool
	// keys are the names of the fields by which a list tells such objects apart.
	keys sets.Set[string]
}

// Part returns the part of a schema, as it is stored, of which Compile makes the same closures as of the whole. It is not ok where the schema cannot be
// read.
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

// findRules finds all that may be rules: a field may have the name, too.
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

// isOdd: CEL may say a name that has the character in another way.
func isOdd(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9')
}

// hasRules tells whether there are rules in a schema.
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

// read reads what a schema says of where its parts are: of its properties, and of its items.
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

// properties writes those that are needed; one, where none is: an object without some is another to CEL.
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

// members writes those members of an object that are needed; write writes the value of one that is.
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
