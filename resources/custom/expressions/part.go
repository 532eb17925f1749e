package expressions

import (
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
}

// within is where a schema is.
type within struct {
	// said is the text of all rules of the schema and of those around it.
	said string
	// keys are the names of the fields by which a list tells such objects apart.
	keys sets.Set[string]
}

// Part returns the part of a schema, as it is stored, of which Compile makes the same closures as of the whole, where it makes some of all rules:
// upstream's, which compare objects and lists as wholes, too, need the whole. It is not ok where the schema cannot be read.
func Part(text []byte) (part []byte, ok bool) {
	index, ok := jsonscan.NewIndex(string(text))
	if !ok {
		return nil, false
	}
	w := partWriter{index: index}
	ok = w.node(index.Whole(), within{})
	return w.out, ok
}

// node writes a schema.
func (w *partWriter) node(node jsonscan.Span, at within) (ok bool) {
	at, below, ok := w.read(node, at)
	return ok && w.members(node, func(name string, _ jsonscan.Span) bool { return name != "description" }, func(name string, v jsonscan.Span) bool {
		switch object := w.index.Of(v)[0] == '{'; {
		case object && name == "properties":
			needed := func(name string, v jsonscan.Span) bool {
				return at.needs(name) || strings.Contains(w.index.Of(v), `"`+Field+`":`)
			}
			return w.members(v, needed, func(_ string, v jsonscan.Span) bool { return w.node(v, within{said: at.said}) })
		case object && (name == "items" || name == "additionalProperties"):
			return w.node(v, below)
		}
		w.out = append(w.out, w.index.Of(v)...)
		return true
	})
}

// read reads what a schema says of where its parts are: of its properties, and of its items.
func (w *partWriter) read(node jsonscan.Span, at within) (inside, below within, ok bool) {
	ok = w.index.Members(node, func(name string, v jsonscan.Span) bool {
		switch name {
		case Field:
			at.said += w.index.Of(v)
		case "x-kubernetes-list-map-keys":
			below.keys = sets.New[string]()
			return w.index.Elements(v, func(key jsonscan.Span) bool {
				below.keys.Insert(strings.Trim(w.index.Of(key), `"`))
				return true
			})
		}
		return true
	})
	below.said = at.said
	return at, below, ok
}

// needs tells whether rules may look at a field with a name, because they say it or it has characters that CEL says in another way, or a list
// does.
func (at within) needs(name string) bool {
	odd := func(c rune) bool { return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') }
	return at.keys.Has(name) || at.said != "" && (strings.Contains(at.said, name) || strings.ContainsFunc(name, odd))
}

// members writes those members of an object that are needed; write writes the value of one.
func (w *partWriter) members(object jsonscan.Span, needed, write func(name string, v jsonscan.Span) bool) (ok bool) {
	w.out = append(w.out, '{')
	begin := len(w.out)
	ok = w.index.Members(object, func(name string, v jsonscan.Span) bool {
		if !needed(name, v) {
			return true
		}
		if len(w.out) > begin {
			w.out = append(w.out, ',')
		}
		w.out = append(append(append(w.out, '"'), name...), '"', ':')
		return write(name, v)
	})
	w.out = append(w.out, '}')
	return ok
}
