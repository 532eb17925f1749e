package openapi

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
)

// parameter is a parameter of an operation, as common.Parameter.
type parameter struct {
	name, description, dataType string
	kind                        common.ParameterKind
	required                    bool
}

func (p *parameter) Name() string               { return p.name }
func (p *parameter) Description() string        { return p.description }
func (p *parameter) Required() bool             { return p.required }
func (p *parameter) Kind() common.ParameterKind { return p.kind }
func (p *parameter) DataType() string           { return p.dataType }
func (p *parameter) AllowMultiple() bool        { return false }

func pathParameter(name, description string) common.Parameter {
	return &parameter{name: name, description: description, dataType: "string", kind: common.PathParameterKind, required: true}
}

func bodyParameter(required bool) common.Parameter {
	return &parameter{name: "body", kind: common.BodyParameterKind, required: required}
}

// prettyParameter is one that every operation on a resource has.
var prettyParameter common.Parameter = &parameter{
	name: "pretty", dataType: "string", kind: common.QueryParameterKind,
	description: "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a " +
		"browser or command-line HTTP tool (curl and wget).",
}

// queryParameters are the fields of an options object that can stand in a query: those at its top level that have a
// name in JSON and are neither structs (a time is one) nor interfaces.
func queryParameters(options any, except ...string) []common.Parameter {
	docs := map[string]string{}
	if d, ok := options.(interface{ SwaggerDoc() map[string]string }); ok {
		docs = d.SwaggerDoc()
	}
	var params []common.Parameter
	typ := reflect.TypeOf(options).Elem()
	for i := range typ.NumField() {
		field := typ.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		dataType, ok := queryType(field.Type)
		if name == "" || !ok || slices.Contains(except, name) {
			continue
		}
		params = append(params, &parameter{
			name: name, description: docs[name], dataType: dataType, kind: common.QueryParameterKind,
		})
	}
	return params
}

// queryType is the JSON type of a field in a query, where a list is its elements one by one.
func queryType(t reflect.Type) (string, bool) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", true
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "integer", true
	case reflect.String:
		return "string", true
	default:
		return "", false
	}
}
