package openapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/rowlock/rowlock/resources"
)

// routes are the operations below a root path; it implements common.RouteContainer.
type routes struct {
	root string
	list []common.Route
	// untyped are the custom resources whose operations are among them.
	untyped []*resources.Served
}

func (r *routes) RootPath() string                   { return r.root }
func (r *routes) PathParameters() []common.Parameter { return nil }
func (r *routes) Routes() []common.Route             { return r.list }

// route is one operation; it implements common.Route.
type route struct {
	method, path string
	// operation is a verb followed by its object; see operationID.
	operation   string
	description string
	parameters  []common.Parameter
	consumes    []string
	produces    []string
	// action and kind are the vendor extensions of an operation on a resource. Empty: there are none.
	action string
	kind   schema.GroupVersionKind
	// body and result are samples of the request's and the response's type. body may be nil.
	body, result any
	// untyped is set for an operation of a custom resource.
	untyped bool
	// codes are the status codes of success. None: 200.
	codes []int
}

func (r *route) Method() string                     { return r.method }
func (r *route) Path() string                       { return r.path }
func (r *route) OperationName() string              { return r.operation }
func (r *route) Parameters() []common.Parameter     { return r.parameters }
func (r *route) Description() string                { return r.description }
func (r *route) Consumes() []string                 { return r.consumes }
func (r *route) Produces() []string                 { return r.produces }
func (r *route) RequestPayloadSample() interface{}  { return r.body }
func (r *route) ResponsePayloadSample() interface{} { return r.result }

func (r *route) Metadata() map[string]interface{} {
	if r.action == "" {
		return nil
	}
	return map[string]interface{}{
		extensionAction: r.action,
		extensionKind:   metav1.GroupVersionKind{Group: r.kind.Group, Version: r.kind.Version, Kind: r.kind.Kind},
	}
}

func (r *route) StatusCodeResponses() []common.StatusCodeResponse {
	var responses []common.StatusCodeResponse
	for _, code := range r.codes {
		responses = append(responses, response{code, r.result})
	}
	return responses
}

// response is one success response of an operation; it implements common.StatusCodeResponse.
type response struct {
	code  int
	model any
}

func (r response) Code() int          { return r.code }
func (r response) Message() string    { return http.StatusText(r.code) }
func (r response) Model() interface{} { return r.model }

const (
	extensionAction     = "x-kubernetes-action"
	extensionKind       = "x-kubernetes-group-version-kind"
	extensionSelectable = "x-kubernetes-selectable-fields"
)
