package openapi

import (
	"bytes"
	"encoding/json"
	"strings"

	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// joinV2 makes the document of version 2 including the parts of other servers. The text of this server's document is retained: of its definitions,
// only those are parsed that share a name with a part's.
func (s *state) joinV2(src *source, parts []*Part) ([]byte, error) {
	if !s.v2().forms[asJSON].Load().there() {
		if err := s.v2().makeJSON(src); err != nil {
			return nil, err
		}
	}
	own, err := s.v2().forms[asJSON].Load().packed.unpack()
	if err != nil {
		return nil, err
	}
	swaggers, err := readParts(parts)
	if err != nil {
		return nil, err
	}
	return join(own, swaggers)
}

func readParts(parts []*Part) ([]*spec.Swagger, error) {
	swaggers := make([]*spec.Swagger, 0, len(parts))
	for _, p := range parts {
		s, err := p.read()
		if err != nil {
			return nil, err
		}
		swaggers = append(swaggers, s)
	}
	return swaggers, nil
}

// join merges by upstream's rules: the first server with a path wins, and a definition that differs from one of the same name is renamed.
func join(own []byte, others []*spec.Swagger) ([]byte, error) {
	var doc swaggerText
	if err := json.Unmarshal(own, &doc); err != nil {
		return nil, err
	}
	for _, members := range []*map[string]json.RawMessage{&doc.Paths, &doc.Definitions, &doc.Parameters} {
		if *members == nil {
			*members = map[string]json.RawMessage{}
		}
	}
	paths, definitions, parameters := doc.Paths, doc.Definitions, doc.Parameters
	merged := &spec.Swagger{SwaggerProps: spec.SwaggerProps{Definitions: spec.Definitions{}, Parameters: map[string]spec.Parameter{},
		Paths: &spec.Paths{Paths: map[string]spec.PathItem{}}}}
	for _, other := range others {
		if other.Paths == nil {
			continue
		}
		for path := range other.Paths.Paths {
			if _, ok := paths[path]; ok {
				merged.Paths.Paths[path] = spec.PathItem{} // the name suffices
			}
		}
		if err := alike(definitions, other.Definitions, merged.Definitions); err != nil {
			return nil, err
		}
		if err := alike(parameters, other.Parameters, merged.Parameters); err != nil {
			return nil, err
		}
	}
	kept := map[string]bool{}
	for path := range merged.Paths.Paths {
		kept[path] = true
	}
	for _, other := range others {
		if err := aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(merged, other); err != nil {
			return nil, err
		}
	}
	for path := range kept {
		delete(merged.Paths.Paths, path)
	}
	for _, err := range []error{put(paths, merged.Paths.Paths), put(definitions, merged.Definitions), put(parameters, merged.Parameters)} {
		if err != nil {
			return nil, err
		}
	}
	return encode(doc)
}

// alike parses into a third map our members that share a name with theirs, or with a name to which theirs may be changed.
func alike[T any](ours map[string]json.RawMessage, theirs, into map[string]T) error {
	for name, data := range ours {
		_, same := theirs[name]
		if i := strings.LastIndex(name, "_v"); i > 0 && !same {
			_, same = theirs[name[:i]]
		}
		if _, known := into[name]; known || !same {
			continue
		}
		var v T
		if err := json.Unmarshal(data, &v); err != nil {
			return err
		}
		into[name] = v
	}
	return nil
}

func put[T any](ours map[string]json.RawMessage, merged map[string]T) error {
	for name, v := range merged {
		data, err := encode(v)
		if err != nil {
			return err
		}
		ours[name] = data
	}
	return nil
}

// encode encodes JSON in the style of the documents.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), err
}
