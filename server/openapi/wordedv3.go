package openapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
)

// A document of version 3 for custom resources is written like their part of the one of version 2: operations from the template, schemas from the
// stored texts. kube-openapi spends most of its time on operations, which an edit of a CustomResourceDefinition does not change.

// wordedV3 is the template document, that of the placeholder type.
type wordedV3 struct {
	openapi, info json.RawMessage
	paths         wording
	// schemas are those of Go types.
	schemas map[string][]byte
}

// textV3 is a document of version 3 by its members, in order.
type textV3 struct {
	OpenAPI    json.RawMessage            `json:"openapi"`
	Info       json.RawMessage            `json:"info"`
	Paths      map[string]json.RawMessage `json:"paths"`
	Components struct {
		Schemas map[string]json.RawMessage `json:"schemas"`
	} `json:"components"`
}

// wordedFor returns the template document for the operations of a type. The caller holds building.
func (s *source) wordedFor(u *resources.Served) (*wordedV3, error) {
	key, known := wordingKeyOf(u), s.known().worded
	if made, there := known[key]; there {
		return made, nil
	}
	n := nobody(u)
	made, err := s.takeApart(n)
	if err != nil {
		return nil, fmt.Errorf("the document of nobody's type: %w", err)
	}
	known[key] = made
	return made, nil
}

// takeApart builds the document of the placeholder type with kube-openapi.
func (s *source) takeApart(n *resources.Served) (*wordedV3, error) {
	definitions, err := s.fewDefinitions()
	if err != nil {
		return nil, err
	}
	own := []string{string(modelOf(n, n.Type.Kind)), string(modelOf(n, n.KindOfLists()))}
	for _, name := range own {
		definitions[name] = common.OpenAPIDefinition{Dependencies: []string{objectMeta, listMeta}}
	}
	r := s.encoded(&routes{root: versionPath(n.GroupVersion()), list: untypedRoutes(n), untyped: []*resources.Served{n}})
	text, err := s.builtV3(r, definitions)
	if err != nil {
		return nil, err
	}
	var parts textV3
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&parts); err != nil {
		return nil, err
	}
	names, err := namesOf(n, definitionsV3)
	if err != nil {
		return nil, err
	}
	made := &wordedV3{openapi: parts.OpenAPI, info: parts.Info, schemas: map[string][]byte{}}
	for name, text := range parts.Components.Schemas {
		if !slices.Contains(own, name) {
			made.schemas[name] = text
		}
	}
	for _, path := range names.paths {
		made.paths = append(made.paths, worded(parts.Paths[path], names.words))
	}
	if len(made.paths) != len(parts.Paths) {
		return nil, errors.New("it has other paths than the type")
	}
	return made, nil
}

// wordV3 writes the document of a version. ok is false if kube-openapi must build it.
func (s *source) wordV3(r *routes) (text []byte, ok bool, err error) {
	definitions, err := s.fewDefinitions()
	if err != nil {
		return nil, false, err
	}
	stored := &storedWriter{definitions: definitions, prefix: definitionsV3}
	paths, schemas, ids := map[string][]byte{}, map[string][]byte{}, map[string]bool{}
	var of *wordedV3
	for _, u := range r.untyped {
		names, err := namesOf(u, definitionsV3)
		if err != nil || !names.covered() || !names.areNew(ids) || !slices.Contains(u.Verbs(), "list") { // only lists refer to both schemas
			return nil, false, err
		}
		if of, err = s.wordedFor(u); err != nil {
			return nil, false, err
		}
		maps.Copy(schemas, of.schemas)
		for i, path := range names.paths {
			if paths[path] != nil {
				return nil, false, nil // kube-openapi rejects duplicates
			}
			paths[path] = of.paths[i].in(names.words, nil)
		}
	}
	for _, u := range r.untyped { // their names must not be those of other definitions
		if ok, err := s.addSchemas(schemas, stored, u); !ok || err != nil {
			return nil, false, err
		}
	}
	return of.join(paths, schemas), true, nil
}

// areNew tells whether none of the type's operations has another's id; kube-openapi rejects duplicates.
func (n named) areNew(ids map[string]bool) bool {
	for _, id := range n.ids {
		if ids[id] {
			return false
		}
		ids[id] = true
	}
	return true
}

// addSchemas adds the schemas of a type and its list.
func (s *source) addSchemas(schemas map[string][]byte, stored *storedWriter, u *resources.Served) (ok bool, err error) {
	object, list := string(modelOf(u, u.Type.Kind)), string(modelOf(u, u.KindOfLists()))
	for _, name := range []string{object, list} {
		if _, kinds := s.name(name, nil); kinds != nil || schemas[name] != nil {
			return false, nil // another type has the same name
		}
	}
	if schemas[object], err = stored.schema(u); err != nil {
		return false, err
	}
	schemas[list], err = json.Marshal(util.WrapRefs(listSchema(stored.definitions, u, definitionsV3)))
	return err == nil, err
}

// join assembles a document.
func (of *wordedV3) join(paths, schemas map[string][]byte) []byte {
	size := len(of.openapi) + len(of.info) + 100
	for _, members := range []map[string][]byte{paths, schemas} {
		for name, text := range members {
			size += len(name) + len(text) + 4
		}
	}
	out := make([]byte, 0, size)
	out = append(append(out, `{"openapi":`...), of.openapi...)
	out = append(append(out, `,"info":`...), of.info...)
	out = appendMembers(append(out, `,"paths":`...), paths)
	out = appendMembers(append(out, `,"components":{"schemas":`...), schemas)
	return append(out, "}}"...)
}

// appendMembers writes an object, whose names need no escapes.
func appendMembers(out []byte, members map[string][]byte) []byte {
	out = append(out, '{')
	for i, name := range slices.Sorted(maps.Keys(members)) {
		if i > 0 {
			out = append(out, ',')
		}
		out = appendMember(out, name, members[name])
	}
	return append(out, '}')
}
