package plan

import (
	"strconv"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kube-openapi/pkg/validation/spec"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// CompileStored makes the plan of a schema from its text, as this server stores it (a JSONSchemaProps of apiextensions.k8s.io/v1): the same
// plan that Compile makes from the forms that upstream's packages read. Repeated parts of a text, which definitions have, are read once,
// and descriptions are not read. ok is false where the text has an unexpected form, or is left to upstream.
func CompileStored(schema string) (n *Node, ok bool) {
	t, ok := jsonscan.NewIndex(schema)
	if !ok {
		return nil, false
	}
	r := storedReader{Index: t, made: map[string]*Node{}}
	n = r.node(t.Whole())
	return n, n != nil
}

type storedReader struct {
	*jsonscan.Index
	// made are the nodes of the parts that were read, by their text.
	made map[string]*Node
}

// shell is a schema without the schemas below it.
type shell struct {
	v spec.Schema
	s structuralschema.Structural
	c children
	// junctors are the texts of allOf and the like.
	junctors []string
	either   bool
	// fallback: there is a default. ownDefaults: there are some in apiVersion, kind or metadata.
	fallback, ownDefaults bool
}

// node reads a schema. Nil: it is not covered.
func (r *storedReader) node(at jsonscan.Span) *Node {
	if n := r.made[r.Of(at)]; n != nil {
		return n
	}
	h := &shell{}
	if !r.Members(at, func(name string, v jsonscan.Span) bool { return r.member(h, name, v) }) || !h.finish() {
		return nil
	}
	if h.ownDefaults && (r.IsWhole(at) || h.s.XEmbeddedResource) {
		return nil // upstream drops invalid parts of metadata
	}
	n := build(&h.v, &h.s, h.c)
	if h.fallback && !n.keeps(n.fallback) {
		return nil
	}
	r.made[r.Of(at)] = n
	return n
}

// keeps reports whether upstream's pruning, which it does when it reads a schema, would leave a default unchanged.
func (n *Node) keeps(fallback any) bool {
	c := completer{dry: true}
	c.value(n, fallback, prune)
	return !c.found && !n.embedded
}

// finish sets the fields that depend on several members.
func (h *shell) finish() bool {
	if h.either {
		h.v.Type = spec.StringOrArray{"integer", "string"}
	}
	if len(h.junctors) > 0 && !h.readJunctors("{"+strings.Join(h.junctors, ",")+"}") {
		return false
	}
	return h.v.Format == "" || stripFormat(&h.v) == nil
}

var stripFormat = validation.StripUnsupportedFormatsPostProcessorForVersion(environment.DefaultCompatibilityVersion())

// readJunctors reads allOf and the like by upstream's code.
func (h *shell) readJunctors(text string) bool {
	var written apiextensionsv1.JSONSchemaProps
	props := &apiextensions.JSONSchemaProps{}
	if kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &written) != nil ||
		apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&written, props, nil) != nil {
		return false
	}
	_, v, err := validation.NewSchemaValidator(props)
	if err != nil {
		return false
	}
	h.v.AllOf, h.v.AnyOf, h.v.OneOf, h.v.Not = v.AllOf, v.AnyOf, v.OneOf, v.Not
	return true
}

// member reads a member of a schema.
func (r *storedReader) member(h *shell, name string, at jsonscan.Span) bool {
	text := r.Of(at)
	switch name {
	case "description", "title", "externalDocs", "example", "x-kubernetes-map-type", "x-kubernetes-validations":
		return true
	case "type":
		return r.texts(text, func(s string) { h.v.Type = spec.StringOrArray{s} })
	case "format":
		return r.texts(text, func(s string) { h.v.Format = s })
	case "pattern":
		return r.texts(text, func(s string) { h.v.Pattern = s })
	case "nullable":
		return yes(text, &h.v.Nullable) && yes(text, &h.s.Nullable)
	case "uniqueItems":
		return yes(text, &h.v.UniqueItems)
	case "x-kubernetes-preserve-unknown-fields":
		return yes(text, &h.s.XPreserveUnknownFields)
	case "x-kubernetes-embedded-resource":
		return yes(text, &h.s.XEmbeddedResource)
	case "x-kubernetes-int-or-string":
		return yes(text, &h.either)
	case "x-kubernetes-list-type":
		return r.texts(text, func(s string) { h.s.XListType = &s })
	case "x-kubernetes-list-map-keys":
		return r.list(at, &h.s.XListMapKeys)
	case "required":
		return r.list(at, &h.v.Required)
	case "enum":
		return r.Elements(at, func(v jsonscan.Span) bool {
			var value any
			err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(r.Of(v)), &value)
			h.v.Enum = append(h.v.Enum, value)
			return err == nil
		})
	case "default":
		h.fallback = true
		return kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &h.s.Default.Object) == nil && h.s.Default.Object != nil
	case "allOf", "anyOf", "oneOf", "not":
		h.junctors = append(h.junctors, `"`+name+`":`+text)
		return true
	case "items", "properties", "additionalProperties":
		return r.below(h, name, at)
	}
	return h.number(name, text)
}

// below reads the schemas below one.
func (r *storedReader) below(h *shell, name string, at jsonscan.Span) bool {
	text := r.Of(at)
	switch name {
	case "items":
		h.v.Items = &spec.SchemaOrArray{}
		h.c.item = r.node(at)
		return h.c.item != nil
	case "properties":
		h.c.fields = map[string]*Node{}
		return r.Members(at, func(name string, v jsonscan.Span) bool {
			h.ownDefaults = h.ownDefaults || isMeta(name) && strings.Contains(r.Of(v), `"default":`)
			field := r.node(v)
			h.c.fields[strings.Clone(name)] = field // a clone, which does not keep the text
			return field != nil
		}) && len(h.c.fields) > 0
	}
	h.v.AdditionalProperties = &spec.SchemaOrBool{Allows: text != "false"}
	h.s.AdditionalProperties = &structuralschema.StructuralOrBool{Bool: text != "false"}
	if text == "true" || text == "false" {
		return true
	}
	h.v.AdditionalProperties.Schema = &spec.Schema{}
	h.c.entry = r.node(at)
	return h.c.entry != nil
}

// number reads a limit. Other members are not covered.
func (h *shell) number(name, text string) bool {
	whole := map[string]**int64{"maxLength": &h.v.MaxLength, "minLength": &h.v.MinLength, "maxItems": &h.v.MaxItems, "minItems": &h.v.MinItems,
		"maxProperties": &h.v.MaxProperties, "minProperties": &h.v.MinProperties}
	if into := whole[name]; into != nil {
		n, err := strconv.ParseInt(text, 10, 64)
		*into = &n
		return err == nil
	}
	if name == "exclusiveMaximum" || name == "exclusiveMinimum" {
		return yes(text, map[string]*bool{"exclusiveMaximum": &h.v.ExclusiveMaximum, "exclusiveMinimum": &h.v.ExclusiveMinimum}[name])
	}
	into := map[string]**float64{"maximum": &h.v.Maximum, "minimum": &h.v.Minimum, "multipleOf": &h.v.MultipleOf}[name]
	if into == nil {
		return false
	}
	n, err := strconv.ParseFloat(text, 64)
	*into = &n
	return err == nil
}

func yes(text string, into *bool) bool {
	*into = text == "true"
	return *into
}

func (r *storedReader) texts(raw string, into func(string)) bool {
	scanner := jsonscan.New([]byte(raw))
	s, ok := scanner.Text()
	into(s)
	return ok
}

func (r *storedReader) list(at jsonscan.Span, into *[]string) bool {
	return r.Elements(at, func(v jsonscan.Span) bool {
		return r.texts(r.Of(v), func(s string) { *into = append(*into, s) })
	})
}
