package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// defined is a copy of a published definition in a group of its own.
type defined struct {
	crd  *apiextensionsv1.CustomResourceDefinition
	body []byte
	// objects is the path of a collection of its resources, in the stored version, and object a small one of them.
	objects string
	object  []byte
}

// copyOf returns a definition under another group. n tells copies of the same definition apart.
func copyOf(crd *apiextensionsv1.CustomResourceDefinition, n int) (*defined, error) {
	d := &defined{crd: crd.DeepCopy()}
	d.crd.Spec.Group = fmt.Sprintf("c%d.%s", n, crd.Spec.Group)
	d.crd.Name = d.crd.Spec.Names.Plural + "." + d.crd.Spec.Group
	return d, d.encode()
}

// encode makes the bodies from d.crd.
func (d *defined) encode() error {
	version := &d.crd.Spec.Versions[slices.IndexFunc(d.crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })]
	d.objects = d.version(version.Name) + "/"
	if d.crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
		d.objects += "namespaces/" + namespace + "/"
	}
	d.objects += d.crd.Spec.Names.Plural
	object := map[string]any{}
	if version.Schema != nil && version.Schema.OpenAPIV3Schema != nil {
		object, _ = least(version.Schema.OpenAPIV3Schema).(map[string]any)
	}
	if object == nil {
		object = map[string]any{}
	}
	object["apiVersion"], object["kind"] = d.crd.Spec.Group+"/"+version.Name, d.crd.Spec.Names.Kind
	object["metadata"] = map[string]any{"name": "one"}
	if d.crd.Spec.Names.Kind == "HTTPRoute" {
		object["spec"] = routeSpec()
	}
	var err error
	if d.object, err = json.Marshal(object); err != nil {
		return err
	}
	d.body, err = json.Marshal(d.crd)
	return err
}

// version is the path of a version.
func (d *defined) version(name string) string { return "/apis/" + d.crd.Spec.Group + "/" + name }

// touched is the body of the definition with another description, which changes the documents about it.
func (d *defined) touched(n int) ([]byte, error) {
	crd := d.crd.DeepCopy()
	for i := range crd.Spec.Versions {
		if s := crd.Spec.Versions[i].Schema; s != nil && s.OpenAPIV3Schema != nil {
			s.OpenAPIV3Schema.Description = fmt.Sprintf("changed %d times", n)
		}
	}
	return json.Marshal(crd)
}

// least is a value that a schema accepts, if it can be guessed: it has the required fields and nothing else.
func least(s *apiextensionsv1.JSONSchemaProps) any {
	if s.Default != nil {
		var v any
		_ = json.Unmarshal(s.Default.Raw, &v) // was read from JSON
		return v
	}
	if len(s.Enum) > 0 {
		var v any
		_ = json.Unmarshal(s.Enum[len(s.Enum)-1].Raw, &v) // the same
		return v
	}
	switch s.Type {
	case "object":
		object := map[string]any{}
		for _, name := range s.Required {
			property := s.Properties[name]
			object[name] = least(&property)
		}
		return object
	case "array":
		list := []any{}
		if s.MinItems != nil && s.Items != nil && s.Items.Schema != nil {
			for range *s.MinItems {
				list = append(list, least(s.Items.Schema))
			}
		}
		return list
	case "boolean":
		return false
	case "integer", "number":
		if s.Minimum != nil {
			return *s.Minimum
		}
		return 1
	}
	text := map[string]string{"date-time": "2026-01-01T00:00:00Z", "duration": "1h", "ipv4": "10.0.0.1", "byte": "YQ=="}[s.Format]
	if text == "" {
		text = "a"
	}
	if s.MinLength != nil && int64(len(text)) < *s.MinLength {
		text = strings.Repeat("a", int(*s.MinLength))
	}
	return text
}

// routeSpec is the spec of an HTTPRoute to which most rules of its schema apply.
func routeSpec() map[string]any {
	backend := map[string]any{"name": "web", "port": 8080, "weight": 1}
	return map[string]any{
		"parentRefs": []any{map[string]any{"name": "gateway", "sectionName": "https"}},
		"hostnames":  []any{"www.example.com"},
		"rules": []any{
			map[string]any{
				"matches":     []any{map[string]any{"path": map[string]any{"type": "PathPrefix", "value": "/shop"}, "headers": []any{map[string]any{"name": "x-a", "value": "b"}}}},
				"filters":     []any{map[string]any{"type": "RequestHeaderModifier", "requestHeaderModifier": map[string]any{"set": []any{map[string]any{"name": "x-b", "value": "c"}}}}},
				"backendRefs": []any{backend},
			},
			map[string]any{"backendRefs": []any{backend}, "timeouts": map[string]any{"request": "10s", "backendRequest": "5s"}},
		},
	}
}
