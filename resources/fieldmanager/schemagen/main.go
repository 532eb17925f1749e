// Command schemagen writes the text that `make generate` packs into schema.txt.gz: the schemas that field management needs of the built-in types,
// from the OpenAPI definitions that kube-apiserver publishes. It has to run for each new Kubernetes version; a test of package fieldmanager fails
// while the file is stale.
//
//	make generate
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"sort"
	"strings"

	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/schemaconv"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kubernetes/pkg/generated/openapi"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

func main() {
	if err := run(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "schemagen:", err)
		os.Exit(1)
	}
}

// served are the packages whose types the API serves; component configuration is left out.
var served = []string{"io.k8s.api.", "io.k8s.apimachinery.", "io.k8s.apiextensions-apiserver.", "io.k8s.kube-aggregator."}

func run(w io.Writer) error {
	config := &common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    openapi.GetOpenAPIDefinitions,
		GetDefinitionName: func(name string) (string, spec.Extensions) { return name, nil },
	}
	var names []string
	for name := range openapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return spec.MustCreateRef(name) }) {
		for _, prefix := range served {
			if strings.HasPrefix(name, prefix) {
				names = append(names, name)
			}
		}
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		return err
	}
	s, err := schemaconv.ToSchemaFromOpenAPI(definitions, false)
	if err != nil {
		return err
	}
	// Byte order, because the reader finds a type by binary search.
	sort.Slice(s.Types, func(i, j int) bool { return s.Types[i].Name < s.Types[j].Name })
	out := bufio.NewWriter(w)
	for _, t := range s.Types {
		if strings.HasPrefix(t.Name, "__") {
			continue // the common types are written in schema.go
		}
		if err := writeType(out, t); err != nil {
			return fmt.Errorf("%s: %w", t.Name, err)
		}
	}
	return out.Flush()
}

func writeType(w io.Writer, t schema.TypeDef) error {
	text, err := atom(t.Atom, true)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s %s\n", t.Name, text)
	if t.Map == nil {
		return nil
	}
	fields := append([]schema.StructField(nil), t.Map.Fields...)
	sort.Slice(fields, func(i, j int) bool { return fields[i].Name < fields[j].Name })
	for _, f := range fields {
		ref, err := typeRef(f.Type)
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
		fmt.Fprintf(w, " %s %s", f.Name, ref)
		// Defaults count where a field is the key of a list, so those of structs are left out.
		if f.Default != nil && reflect.TypeOf(f.Default).Kind() != reflect.Map {
			def, err := json.Marshal(f.Default)
			if err != nil {
				return err
			}
			fmt.Fprintf(w, " %s", def)
		}
		fmt.Fprintln(w)
	}
	return nil
}

func typeRef(t schema.TypeRef) (string, error) {
	nullable := ""
	if t.Nullable {
		nullable = "?"
	}
	if t.NamedType == nil {
		if reflect.DeepEqual(t, schema.TypeRef{}) {
			return "!", nil
		}
		text, err := atom(t.Inlined, false)
		return nullable + text, err
	}
	override := ""
	if r := t.ElementRelationship; r != nil {
		override = "^" + string(*r)[:1]
	}
	return nullable + "@" + *t.NamedType + override, nil
}

func atom(a schema.Atom, fieldsFollow bool) (string, error) {
	switch {
	case a.Scalar != nil && a.List != nil && a.Map != nil:
		// No type is given, which allows anything. Only one such shape exists.
		if *a.Scalar != schema.Untyped || len(a.Map.Fields) > 0 {
			return "", fmt.Errorf("unexpected untyped shape")
		}
		list, err := atom(schema.Atom{List: a.List}, false)
		if err != nil {
			return "", err
		}
		m, err := atom(schema.Atom{Map: a.Map}, false)
		return "*" + list + "|" + m, err
	case a.Scalar != nil:
		return string(*a.Scalar)[:1], nil
	case a.List != nil:
		elem, err := typeRef(a.List.ElementType)
		rel := "a"
		if a.List.ElementRelationship == schema.Associative {
			rel = "A"
		}
		if len(a.List.Keys) > 0 {
			rel += ":" + strings.Join(a.List.Keys, ",")
		}
		return "[" + rel + "]" + elem, err
	case a.Map != nil:
		if len(a.Map.Fields) > 0 && !fieldsFollow {
			return "", fmt.Errorf("inlined structs are not expected")
		}
		elem, err := typeRef(a.Map.ElementType)
		rel := ""
		if a.Map.ElementRelationship != "" {
			rel = string(a.Map.ElementRelationship)[:1]
		}
		return "{" + rel + "}" + elem, err
	}
	return "", fmt.Errorf("empty atom")
}
