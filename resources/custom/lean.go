package custom

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// The schemas are most of a definition, and of all steps of a new definition's way to the store only validation reads them. So they go that
// way as text (resources.Lean): a placeholder for each schema has the text as its description. Equal schemas have equal placeholders, and
// different ones different, which is all that conversion and strategies need to know of them.

// mark is the beginning of a placeholder's description. It is random, so no client can guess it, and no answer contains it.
var mark = func() string {
	var secret [16]byte
	_, _ = rand.Read(secret[:]) // never fails
	return "schema " + hex.EncodeToString(secret[:]) + " "
}()

// leanSchemas implements resources.Lean for definitions.
type leanSchemas struct {
	// stored remembers the schemas that were sent in the stored form.
	stored seen
}

// Lift implements resources.Lean. Schemas are numbered in the order of their first occurrence.
func (l *leanSchemas) Lift(body []byte, known []string) (lean []byte, parts []string, ok bool) {
	s := jsonscan.New(body)
	parts = slices.Clip(known)
	done := 0
	ok = descend(&s, func() bool {
		from := s.At()
		raw, ok := s.Raw()
		if !ok || len(raw) == 0 || raw[0] != '{' {
			return false
		}
		text, ok := l.canonical(raw)
		if !ok {
			return false
		}
		n := slices.Index(parts, text)
		if n < 0 {
			n, parts = len(parts), append(parts, text)
		}
		lean = fmt.Appendf(append(lean, body[done:from]...), `{"description":"%s%d"}`, mark, n)
		done = from + len(raw)
		return true
	}, "spec", "versions", "", "schema", "openAPIV3Schema")
	return append(lean, body[done:]...), parts, ok && s.End() && len(parts) > 0
}

// descend calls read at the values below the names of members; the empty name stands for all elements of a list. It also returns false when
// a name occurs twice.
func descend(s *jsonscan.Scanner, read func() bool, names ...string) bool {
	if len(names) == 0 {
		return read()
	}
	next := func() bool { return descend(s, read, names[1:]...) }
	switch c := s.Peek(); {
	case c == '[' && names[0] == "":
		return s.Elements(next)
	case c == '{' && names[0] != "":
		found := false
		return s.Members(func(name string) bool {
			if name != names[0] {
				return s.Skip()
			}
			again := found
			found = true
			return !again && next() // upstream merges duplicates
		})
	}
	return s.Skip()
}

// canonical is a schema in its stored form, behind the mark.
func (l *leanSchemas) canonical(sent []byte) (string, bool) {
	digest := sha256.Sum256(sent)
	if l.stored.Has(digest) {
		return mark + string(sent), true
	}
	text, ok := canonicalSchema([]byte(mark), sent)
	if ok && bytes.Equal(text[len(mark):], sent) {
		l.stored.Add(digest)
	}
	return string(text), ok
}

// numbered is the index of the part that a placeholder in a lean text stands for.
func numbered(description string, parts []string) (n int, ok bool) {
	number, ok := strings.CutPrefix(description, mark)
	if !ok {
		return 0, false
	}
	n, err := strconv.Atoi(number)
	return n, err == nil && n >= 0 && n < len(parts)
}

// Fill implements resources.Lean.
func (l *leanSchemas) Fill(hub runtime.Object, parts []string, from int) bool {
	crd, ok := hub.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return false
	}
	filled := make([]bool, len(parts))
	eachSchema(crd, func(s *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
		n, is := numbered(s.Description, parts)
		if ok = ok && is; !ok {
			return s
		}
		filled[n] = true
		return placeholder(parts[n])
	})
	return ok && !slices.Contains(filled[from:], false)
}

// eachSchema replaces the schemas of a definition, without a change to definitions that share them.
func eachSchema(crd *apiextensions.CustomResourceDefinition, by func(*apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps) {
	replaced := func(v *apiextensions.CustomResourceValidation) *apiextensions.CustomResourceValidation {
		if v == nil || v.OpenAPIV3Schema == nil {
			return v
		}
		return &apiextensions.CustomResourceValidation{OpenAPIV3Schema: by(v.OpenAPIV3Schema)}
	}
	crd.Spec.Validation = replaced(crd.Spec.Validation)
	crd.Spec.Versions = slices.Clone(crd.Spec.Versions)
	for i := range crd.Spec.Versions {
		crd.Spec.Versions[i].Schema = replaced(crd.Spec.Versions[i].Schema)
	}
}

// Apart implements resources.Lean.
func (*leanSchemas) Apart() []string {
	return []string{"/metadata/", "/spec/conversion/", "/spec/names/"}
}

// IsLean implements resources.Lean.
func (*leanSchemas) IsLean(hub runtime.Object) bool {
	crd, ok := hub.(*apiextensions.CustomResourceDefinition)
	return ok && isLean(crd)
}

// Restore implements resources.Lean.
func (*leanSchemas) Restore(hub runtime.Object) error {
	crd, ok := hub.(*apiextensions.CustomResourceDefinition)
	if !ok || !isLean(crd) {
		return nil
	}
	fastpath.DefinitionSchemas.Fallback()
	return restore(crd, readProps)
}

// restore replaces texts by their schemas; it reads equal texts once.
func restore(crd *apiextensions.CustomResourceDefinition, readText func(text string) (*apiextensions.JSONSchemaProps, error)) (failed error) {
	read := map[string]*apiextensions.JSONSchemaProps{}
	eachSchema(crd, func(s *apiextensions.JSONSchemaProps) *apiextensions.JSONSchemaProps {
		text, is := strings.CutPrefix(s.Description, mark)
		if !is {
			return s
		}
		if read[text] == nil {
			var err error
			read[text], err = readText(text)
			failed = errors.Join(failed, err)
		}
		return read[text]
	})
	return failed
}

// readProps reads a stored schema, as part of a definition, by typedjson, which reads nested schemas only once.
func readProps(text string) (*apiextensions.JSONSchemaProps, error) {
	var around apiextensionsv1.CustomResourceDefinition
	if !typedjson.Decode([]byte(`{"spec":{"versions":[{"schema":{"openAPIV3Schema":`+text+`}}]}}`), &around) {
		props, _, err := readSchema([]byte(text))
		return props, err
	}
	props := &apiextensions.JSONSchemaProps{}
	err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(around.Spec.Versions[0].Schema.OpenAPIV3Schema, props, nil)
	return props, err
}

// storedText is the stored form of a schema, behind the mark.
func storedText(props *apiextensions.JSONSchemaProps) (string, bool) {
	var versioned apiextensionsv1.JSONSchemaProps
	if err := apiextensionsv1.Convert_apiextensions_JSONSchemaProps_To_v1_JSONSchemaProps(props, &versioned, nil); err != nil {
		return "", false
	}
	text, asSent, ok := typedjson.AppendStored([]byte(mark), &versioned)
	return string(text), ok && !asSent
}

// Shorten implements resources.Lean. It replaces a schema that is not a placeholder by the form that a reader gets back.
func (*leanSchemas) Shorten(versioned runtime.Object) (parts []string) {
	crd, ok := versioned.(*apiextensionsv1.CustomResourceDefinition)
	if !ok {
		return nil
	}
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		text := v.Schema.OpenAPIV3Schema.Description
		if !strings.HasPrefix(text, mark) {
			forgetNoItems(v.Schema.OpenAPIV3Schema)
			continue
		}
		v.Schema = &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Description: mark + strconv.Itoa(len(parts))}}
		parts = append(parts, text)
	}
	return parts
}

// Insert implements resources.Lean.
func (*leanSchemas) Insert(data []byte, parts []string) ([]byte, error) {
	placeholder := func(n int) []byte { return fmt.Appendf(nil, `{"description":"%s%d"}`, mark, n) }
	size := len(data)
	for n, part := range parts {
		size += len(part) - len(mark) - len(placeholder(n))
	}
	out := make([]byte, 0, size) // without spare capacity, as in Type.encode
	for n, part := range parts {
		before, after, found := bytes.Cut(data, placeholder(n))
		if !found {
			return nil, fmt.Errorf("schema %d is not where it was", n)
		}
		out, data = append(append(out, before...), part[len(mark):]...), after
	}
	return append(out, data...), nil
}
