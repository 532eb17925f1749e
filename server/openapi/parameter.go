package openapi

import (
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources/gotype"
)

// parameter implements common.Parameter.
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

// prettyParameter is a parameter of every operation on a resource.
var prettyParameter common.Parameter = &parameter{
	name: "pretty", dataType: "string", kind: common.QueryParameterKind,
	description: "If 'true', then the output is pretty printed. Defaults to 'false' unless the user-agent indicates a " +
		"browser or command-line HTTP tool (curl and wget).",
}

// queryParameters are the fields of an options object that are allowed in a query: its top-level fields that have a JSON name and are neither
// structs (times are structs) nor interfaces.
func queryParameters(options any, except ...string) []common.Parameter {
	docs := descriptions(options)
	var params []common.Parameter
	typ := reflect.TypeOf(options).Elem()
	for i := range typ.NumField() {
		field := gotype.FieldOf(typ.Field(i))
		name := field.JSON
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

// descriptions returns the field descriptions of an options object. It lists the types: an assertion to an interface with their method would keep
// the linker from removing that method of every other type.
func descriptions(options any) map[string]string {
	switch o := options.(type) {
	case *metav1.GetOptions:
		return o.SwaggerDoc()
	case *metav1.CreateOptions:
		return o.SwaggerDoc()
	case *metav1.UpdateOptions:
		return o.SwaggerDoc()
	case *metav1.PatchOptions:
		return o.SwaggerDoc()
	case *metav1.DeleteOptions:
		return o.SwaggerDoc()
	case *metav1.ListOptions:
		return o.SwaggerDoc()
	case *corev1.PodAttachOptions:
		return o.SwaggerDoc()
	case *corev1.PodExecOptions:
		return o.SwaggerDoc()
	case *corev1.PodLogOptions:
		return o.SwaggerDoc()
	case *corev1.PodPortForwardOptions:
		return o.SwaggerDoc()
	case *corev1.PodProxyOptions:
		return o.SwaggerDoc()
	case *corev1.ServiceProxyOptions:
		return o.SwaggerDoc()
	case *corev1.NodeProxyOptions:
		return o.SwaggerDoc()
	}
	return nil
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
