package custom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"
	"unsafe"

	"github.com/tidwall/gjson"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Schemas are most of a definition, and a server that has just started only needs to know whether they are the same as before. So a definition
// is read without them, and each schema is hashed in the text.

// bones is a definition whose schemas are empty.
type bones struct {
	apiextensionsv1.CustomResourceDefinition
	sums byVersion[schemaSum] // by version; a version without a schema has none
	// texts are the positions of the schemas of all versions.
	texts byVersion[textSpan]
}

// textSpan is the position of a version's schema in the text of its definition. It is empty if there is no schema.
type textSpan struct{ from, to int }

func (s textSpan) of(definition []byte) []byte { return definition[s.from:s.to] }

// schemaSum identifies a schema.
type schemaSum struct {
	// digest is a hash of the text, shape a hash of the parts that the bytes of objects depend on; see form.go.
	digest, shape string
	// size is the length of the text, and rules its number of rules in CEL.
	size, rules int
}

// readBones reads a stored definition in its encoded form: every key once. known caches the sums of schemas.
func readBones(data []byte, known *compiled) (*bones, error) {
	b := &bones{}
	text := unsafe.String(unsafe.SliceData(data), len(data)) // no part of it is kept
	short, done := make([]byte, 0, 8<<10), 0
	var wrong error
	whole := eachVersion(text, func(name, schema string, at int) bool {
		if schema == "" {
			b.texts.set(name, textSpan{})
			return true
		}
		var sum schemaSum
		if sum, wrong = known.sum(schema); wrong != nil {
			return false
		}
		b.sums.set(name, sum)
		b.texts.set(name, textSpan{at, at + len(schema)})
		short = append(append(short, text[done:at]...), "{}"...)
		done = at + len(schema)
		return true
	})
	if wrong != nil {
		return nil, wrong
	}
	err := kjson.UnmarshalCaseSensitivePreserveInts(append(short, text[done:]...), &b.CustomResourceDefinition)
	if err == nil && !whole {
		return nil, errors.New("it is not as it would be stored")
	}
	b.ManagedFields = nil
	return b, err
}

// eachVersion finds the schemas of the versions of a definition, and their positions. A missing schema is empty. It returns false if yield
// does, and if the text does not have the stored form.
func eachVersion(definition string, yield func(name, schema string, at int) bool) bool {
	s := jsonscan.New(bytesOf(definition))
	past := func() bool {
		_, ok := s.Unread()
		return ok
	}
	return descend(&s, func() bool {
		var name, schema string
		at := 0
		return s.Members(func(key string) (ok bool) {
			switch {
			case key == "name":
				name, ok = s.Text()
				return ok
			case key == "schema" && s.Peek() == '{':
				return s.Members(func(key string) bool {
					if key != "openAPIV3Schema" {
						return past()
					}
					at = s.At()
					schema, ok = s.Unread()
					return ok
				})
			}
			return past()
		}) && yield(strings.Clone(name), schema, at) // a clone, which does not keep the whole text
	}, "spec", "versions", "")
}

// sumKey is the cache key of the sum of the schema with a digest, and sumSize about the size of the entry.
type sumKey [sha256.Size]byte

const sumSize = 512

// sum is sumOf with a cache.
func (c *compiled) sum(text string) (schemaSum, error) {
	digest := sha256.Sum256(bytesOf(text))
	v, err := c.get(sumKey(digest), sumSize, func() (any, error) { return sumOf(text, digest) })
	if err != nil {
		return schemaSum{}, err
	}
	return v.(schemaSum), nil
}

// bytesOf are the bytes of a text, which must not be changed.
func bytesOf(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

func sumOf(text string, digest [sha256.Size]byte) (schemaSum, error) {
	r := shapeReader{Scanner: jsonscan.New(bytesOf(text)), Hash: sha256.New()}
	if !r.schema() || !r.End() {
		if !gjson.Valid(text) {
			return schemaSum{}, fmt.Errorf("a schema of %d bytes is not as it would be stored", len(text))
		}
		// The schema is nested too deeply. Any change of it may change the bytes of objects.
		return schemaSum{digest: hex.EncodeToString(digest[:16]), shape: hex.EncodeToString(digest[:16]), size: len(text), rules: strings.Count(text, `"rule":`)}, nil
	}
	return schemaSum{digest: hex.EncodeToString(digest[:16]), shape: hex.EncodeToString(r.Sum(nil)[:16]), size: len(text), rules: r.rules}, nil
}

// shapeReader hashes the parts of a schema that pruning and defaulting depend on, in the order of the text: the keys of a Go type and the
// sorted keys of a map.
type shapeReader struct {
	jsonscan.Scanner
	hash.Hash
	rules int
}

func (r *shapeReader) write(s string) {
	_ = binary.Write(r, binary.BigEndian, uint32(len(s)))
	_, _ = r.Write(bytesOf(s))
}

// schema reads a schema. Any other value (a schema that is true or false) is a part of the shape unchanged.
func (r *shapeReader) schema() bool {
	if r.Peek() != '{' {
		return r.value()
	}
	r.write("{")
	defer r.write("}")
	return r.Members(func(key string) bool {
		switch key {
		case "type", "nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "default":
			r.write(key)
			return r.value()
		case "items", "additionalProperties":
			r.write(key)
			return r.schema()
		case "properties":
			r.write(key)
			return r.Members(func(name string) bool {
				r.write(name)
				return r.schema()
			})
		case "x-kubernetes-validations":
			return r.Elements(func() bool {
				r.rules++
				return r.Skip()
			})
		}
		return r.Skip()
	})
}

func (r *shapeReader) value() bool {
	text, ok := r.Raw()
	r.write(string(text))
	return ok
}
