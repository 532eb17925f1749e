package custom

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Definitions have large parts in common: the same template of pods, the same spec in one version and the next. What upstream's validation
// says of an object within a schema that has no rules in CEL depends on nothing around it, but for a few things (see opens). So where such a
// part was found valid before, one that says nothing but which part it is for is validated in its place. What is refused then is validated as a whole.

// reducer makes a schema shorter.
type reducer struct {
	index *jsonscan.Index
	out   []byte
	// known are the parts that were found valid, and met those that are in this schema as well.
	known *seen
	met   [][sha256.Size]byte
}

// leastPart is how long a part is at least that is worth a stand-in, which is of 100 bytes.
const leastPart = 160

// reduced returns a schema, as it is stored, with stand-ins for known parts, and the parts that are valid if it is valid. It is not ok where
// there is no such part.
func reduced(text string, known *seen) (short string, parts [][sha256.Size]byte, ok bool) {
	index, ok := jsonscan.NewIndex(text)
	if !ok {
		return "", nil, false
	}
	r := reducer{index: index, out: make([]byte, 0, len(text)/2), known: known}
	ok = r.node(index.Whole(), place{root: true})
	return string(r.out), r.met, ok
}

// place is where a schema is: at the root, or where defaults are not looked at.
type place struct{ root, unlooked bool }

// node writes a schema.
func (r *reducer) node(node jsonscan.Span, at place) bool {
	if !at.root && r.replaced(node, at.unlooked) {
		return true
	}
	if !r.opens(node) {
		r.out = append(r.out, r.index.Of(node)...)
		return true
	}
	return r.members(node, func(name string, v jsonscan.Span) bool {
		switch object := r.index.Of(v)[0] == '{'; {
		case object && name == "properties":
			return r.members(v, func(name string, v jsonscan.Span) bool {
				if at.root && (name == "metadata" || name == "kind" || name == "apiVersion") {
					r.out = append(r.out, r.index.Of(v)...)
					return true
				}
				return r.node(v, place{unlooked: at.unlooked})
			})
		case object && name == "items":
			return r.node(v, place{unlooked: at.unlooked})
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
// whose metadata other things are true. Lists whose items are told apart by some of their fields look at these.
func (r *reducer) opens(node jsonscan.Span) bool {
	opens := true
	return r.index.Members(node, func(name string, v jsonscan.Span) bool {
		switch name {
		case "x-kubernetes-validations", "x-kubernetes-embedded-resource", "default", "allOf", "anyOf", "oneOf", "not":
			opens = false
		case "x-kubernetes-list-type":
			opens = opens && r.index.Of(v) == `"atomic"`
		}
		return true
	}) && opens
}

// replaced writes the stand-in of a known part. Defaults below additionalProperties are not looked at, and so are not known to be valid.
func (r *reducer) replaced(node jsonscan.Span, unlooked bool) bool {
	text := r.index.Of(node)
	if len(text) < leastPart || contains(text, "x-kubernetes-validations") || contains(text, "x-kubernetes-embedded-resource") || !r.isObject(node) {
		return false
	}
	digest := sha256.Sum256(bytesOf(text))
	if !r.known.Has(digest) {
		if !unlooked || !contains(text, "default") {
			r.met = append(r.met, digest)
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
