package custom

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Definitions have large parts in common, with others and within themselves: the same template of pods, the same spec in one version and the next.
// Upstream's validation of an object schema within a schema does not depend on its surroundings, except for its rules in CEL, which ruled.go handles,
// and a few cases (see opens). So a part that was found valid before, or that occurs for a second time in the definition, is replaced for validation
// by a stand-in that only identifies the part. Plain parts get a stand-in even the first time (plain.go). A definition that is refused in this form
// is validated as a whole.

// reducer shortens the schemas of a definition, one after the other.
type reducer struct {
	index *jsonscan.Index
	out   []byte
	// known are the parts that were found valid; met are the parts of this definition, which are valid if the definition is.
	known *seen
	met   map[[sha256.Size]byte]bool
	// strips: rules in CEL are left out of the shortened schema, because they are in ruled (by schema), and checked separately.
	strips bool
	ruled  [][]ruledPlace
	// plain are the plain parts of the schema.
	plain plainParts
	// selected are the names of fields in selectableFields.
	selected map[string]bool
}

func newReducer(known, patterns *seen) *reducer {
	return &reducer{known: known, met: map[[sha256.Size]byte]bool{}, plain: plainParts{patterns: patterns}}
}

// leastPart is the least length of a part that is worth a stand-in, which takes 100 bytes.
const leastPart = 160

// reduced returns a stored schema with stand-ins for known parts and for repeated ones. ok is false where it cannot be read.
func (r *reducer) reduced(text string) (short string, ok bool) {
	index, ok := jsonscan.NewIndex(text)
	if !ok {
		return "", false
	}
	r.index, r.out, r.strips = index, make([]byte, 0, len(text)/2), false
	if places, covered := ruledPlaces(index); covered && len(places) > 0 {
		r.strips, r.ruled = true, append(r.ruled, places)
	}
	r.plain.index, r.plain.ruled, r.plain.others = index, r.strips, map[jsonscan.Span]bool{}
	r.plain.look(index.Whole())
	ok = r.node(index.Whole(), place{root: true})
	return string(r.out), ok
}

// place is the place of a schema: at the root; where validation skips defaults (unlooked); where a selectable field may be (selected); in a list of
// type map with the key fields in keys.
type place struct {
	root, unlooked, selected bool
	keys                     sets.Set[string]
}

// looksAt reports whether validation treats a field specially because of its place.
func (p place) looksAt(name string) bool {
	return p.root && (name == "metadata" || name == "kind" || name == "apiVersion") || p.keys.Has(name)
}

// node writes a schema.
func (r *reducer) node(node jsonscan.Span, at place) bool {
	if !at.root && !at.selected && at.keys == nil {
		if r.plain.has(node) {
			r.out = append(r.out, r.plain.standIn(node)...)
			return true
		}
		if r.replaced(node, at.unlooked) {
			return true
		}
	}
	opens, keys := r.opens(node)
	if !opens {
		return r.copied(node)
	}
	return r.members(node, r.left(), func(name string, v jsonscan.Span) bool {
		switch object := r.index.Of(v)[0] == '{'; {
		case object && name == "properties":
			return r.members(v, "", func(name string, v jsonscan.Span) bool {
				if at.looksAt(name) {
					return r.copied(v)
				}
				return r.node(v, place{unlooked: at.unlooked, selected: r.selected[name]})
			})
		case object && name == "items":
			return r.node(v, place{unlooked: at.unlooked, keys: keys})
		case object && name == "additionalProperties":
			return r.node(v, place{unlooked: true})
		}
		r.out = append(r.out, r.index.Of(v)...)
		return true
	})
}

// left is the name of the member to be left out of schemas.
func (r *reducer) left() string {
	if r.strips {
		return rulesOfNode
	}
	return ""
}

// copied writes a schema unchanged, except for the rules that are checked separately.
func (r *reducer) copied(node jsonscan.Span) bool {
	text := r.index.Of(node)
	if !r.strips || !contains(text, rulesOfNode) {
		r.out = append(r.out, text...)
		return true
	}
	return r.members(node, r.left(), func(name string, v jsonscan.Span) bool {
		switch object := r.index.Of(v)[0] == '{'; {
		case object && name == "properties":
			return r.members(v, "", func(_ string, v jsonscan.Span) bool { return r.copied(v) })
		case object && (name == "items" || name == "additionalProperties"):
			return r.copied(v)
		}
		r.out = append(r.out, r.index.Of(v)...)
		return true
	})
}

// members writes an object without the member called left; write writes the values of the others.
func (r *reducer) members(object jsonscan.Span, left string, write func(name string, v jsonscan.Span) bool) bool {
	r.out = append(r.out, '{')
	begin := len(r.out)
	ok := r.index.Members(object, func(name string, v jsonscan.Span) bool {
		if name == left && left != "" {
			return true
		}
		if len(r.out) > begin {
			r.out = append(r.out, ',')
		}
		r.out = append(append(append(r.out, '"'), name...), '"', ':')
		return write(name, v)
	})
	r.out = append(r.out, '}')
	return ok
}

// opens reports whether parts below a node may have stand-ins: no rule, default or junctor of the node depends on them, and the node is not an
// embedded resource, whose metadata has other rules. Validation of a list of type map reads its key fields, and the items: keys are the names of the
// key fields.
func (r *reducer) opens(node jsonscan.Span) (opens bool, keys sets.Set[string]) {
	opens, isMap := true, false
	ok := r.index.Members(node, func(name string, v jsonscan.Span) bool {
		switch name {
		case rulesOfNode:
			opens = opens && r.strips
		case "x-kubernetes-embedded-resource", "default", "allOf", "anyOf", "oneOf", "not":
			opens = false
		case "x-kubernetes-list-type":
			isMap = r.index.Of(v) == `"map"`
			opens = opens && (isMap || r.index.Of(v) == `"atomic"`)
		case "x-kubernetes-list-map-keys":
			keys = sets.New[string]()
			return r.index.Elements(v, func(key jsonscan.Span) bool {
				keys.Insert(strings.Trim(r.index.Of(key), `"`))
				return true
			})
		}
		return true
	})
	return ok && opens && isMap == (keys != nil), keys
}

// replaced writes the stand-in of a known part. Validation skips defaults below additionalProperties, so they are not known to be valid.
func (r *reducer) replaced(node jsonscan.Span, unlooked bool) bool {
	text := r.index.Of(node)
	if len(text) < leastPart || contains(text, rulesOfNode) && !r.strips || contains(text, "x-kubernetes-embedded-resource") || !r.isObject(node) {
		return false
	}
	digest := sha256.Sum256(bytesOf(text))
	if !r.met[digest] && !r.known.Has(digest) {
		if !unlooked || !contains(text, "default") {
			r.met[digest] = true
		}
		return false
	}
	r.out = append(hex.AppendEncode(append(r.out, `{"description":"`...), digest[:]), `","type":"object"}`...)
	return true
}

// contains reports whether a schema may have a field with a name anywhere; false is certain.
func contains(text, name string) bool { return strings.Contains(text, `"`+name+`":`) }

func (r *reducer) isObject(node jsonscan.Span) (is bool) {
	return r.index.Members(node, func(name string, v jsonscan.Span) bool {
		is = is || name == "type" && r.index.Of(v) == `"object"`
		return true
	}) && is
}
