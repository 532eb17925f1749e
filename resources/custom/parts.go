package custom

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Definitions have large parts in common, with others and within themselves: the same template of pods, the same spec in one version and the
// next. What upstream's validation says of an object within a schema that has no rules in CEL depends on nothing around it, but for a few
// things (see opens). So where such a part was found valid before, or is in the definition for a second time, one that says nothing but
// which part it is for is validated in its place. What is refused then is validated as a whole.

// reducer makes the schemas of a definition shorter, one after the other.
type reducer struct {
	index *jsonscan.Index
	out   []byte
	// known are the parts that were found valid, and met those that are in this definition as well, and are valid if it is.
	known *seen
	met   map[[sha256.Size]byte]bool
}

func newReducer(known *seen) *reducer {
	return &reducer{known: known, met: map[[sha256.Size]byte]bool{}}
}

// leastPart is how long a part is at least that is worth a stand-in, which is of 100 bytes.
const leastPart = 160

// reduced returns a schema, as it is stored, with stand-ins for known parts and for those that it has again. It is not ok where it cannot
// be read.
func (r *reducer) reduced(text string) (short string, ok bool) {
	index, ok := jsonscan.NewIndex(text)
	if !ok {
		return "", false
	}
	r.index, r.out = index, make([]byte, 0, len(text)/2)
	ok = r.node(index.Whole(), place{root: true})
	return string(r.out), ok
}

// place is where a schema is: at the root, where defaults are not looked at, or in a list whose items are told apart by fields with the names in
// keys, which are JSON.
type place struct {
	root, unlooked bool
	keys           string
}

// looksAt tells whether a field of an object is looked at for where it is.
func (p place) looksAt(name string) bool {
	return p.root && (name == "metadata" || name == "kind" || name == "apiVersion") || strings.Contains(p.keys, `"`+name+`"`)
}

// node writes a schema.
func (r *reducer) node(node jsonscan.Span, at place) bool {
	if !at.root && at.keys == "" && r.replaced(node, at.unlooked) {
		return true
	}
	opens, keys := r.opens(node)
	if !opens {
		r.out = append(r.out, r.index.Of(node)...)
		return true
	}
	return r.members(node, func(name string, v jsonscan.Span) bool {
		switch object := r.index.Of(v)[0] == '{'; {
		case object && name == "properties":
			return r.members(v, func(name string, v jsonscan.Span) bool {
				if at.looksAt(name) {
					r.out = append(r.out, r.index.Of(v)...)
					return true
				}
				return r.node(v, place{unlooked: at.unlooked})
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

// members writes an object, of whose members write writes the values.
func (r *reducer) members(object jsonscan.Span, write func(name string, v jsonscan.Span) bool) bool {
	r.out = append(r.out, '{')
	begin := len(r.out)
	ok := r.index.Members(object, func(name string, v jsonscan.Span) bool {
		if len(r.out) > begin {
			r.out = append(r.out, ',')
		}
		r.out = append(append(append(r.out, '"'), name...), '"', ':')
		return write(name, v)
	})
	r.out = append(r.out, '}')
	return ok
}

// opens tells whether parts below a node may have stand-ins: no rule, no default and no junctor of it looks at them, and it is no resource, of
// whose metadata other things are true. A list whose items are told apart by some of their fields looks at these, and at the items: keys are
// their names.
func (r *reducer) opens(node jsonscan.Span) (opens bool, keys string) {
	opens, isMap := true, false
	ok := r.index.Members(node, func(name string, v jsonscan.Span) bool {
		switch name {
		case "x-kubernetes-validations", "x-kubernetes-embedded-resource", "default", "allOf", "anyOf", "oneOf", "not":
			opens = false
		case "x-kubernetes-list-type":
			isMap = r.index.Of(v) == `"map"`
			opens = opens && (isMap || r.index.Of(v) == `"atomic"`)
		case "x-kubernetes-list-map-keys":
			keys = r.index.Of(v)
		}
		return true
	})
	return ok && opens && isMap == (keys != ""), keys
}

// replaced writes the stand-in of a known part. Defaults below additionalProperties are not looked at, and so are not known to be valid.
func (r *reducer) replaced(node jsonscan.Span, unlooked bool) bool {
	text := r.index.Of(node)
	if len(text) < leastPart || contains(text, "x-kubernetes-validations") || contains(text, "x-kubernetes-embedded-resource") || !r.isObject(node) {
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

// contains tells whether a schema has a field of a name anywhere; it may be mistaken if it says so.
func contains(text, name string) bool { return strings.Contains(text, `"`+name+`":`) }

func (r *reducer) isObject(node jsonscan.Span) (is bool) {
	return r.index.Members(node, func(name string, v jsonscan.Span) bool {
		is = is || name == "type" && r.index.Of(v) == `"object"`
		return true
	}) && is
}
