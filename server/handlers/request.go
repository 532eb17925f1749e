package handlers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversionscheme "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/runs"
	"github.com/rowlock/rowlock/server/status"
)

// request is one request for a resource.
type request struct {
	w    http.ResponseWriter
	r    *http.Request
	ctx  context.Context
	info *genericapirequest.RequestInfo
	// offer are the supported encodings.
	offer *codec.Offer
	runs  *runs.Cache
	sent  *sentBody
	// counts has the metrics of bodies.
	counts counts
	// audit records the request; nil: nothing is recorded.
	audit *auditing.Request

	// found is the type of the path, and served the one for reading and rendering objects: a deletion may render them differently.
	found, served *resources.Served

	sub *resources.Subresource // nil for the type itself
	// kind is the kind of bodies: the subresource's if it has its own.
	kind schema.GroupVersionKind
	// older is the kind of a body in one of Subresource.OlderVersions; nil: it is kind.
	older *schema.GroupVersionKind
	// written is set once only the response remains to be sent.
	written bool
}

// resource is the resource for errors.
func (q *request) resource() schema.GroupResource {
	return schema.GroupResource{Group: q.info.APIGroup, Resource: q.info.Resource}
}

// namespace is the namespace of the requested objects. A Namespace has none, whatever its path looks like.
func (q *request) namespace() string {
	if !q.served.Namespaced {
		return ""
	}
	return q.info.Namespace
}

// inNoKey rejects a namespace that no etcd key can contain, as kube-apiserver does when it reads. A creation looks up the namespace first.
func (q *request) inNoKey() error {
	ns := q.namespace()
	if ns != "." && ns != ".." || q.served.Virtual != nil || q.info.Verb == "create" {
		return nil
	}
	key := strings.TrimPrefix(q.served.KeyOf(ns, q.info.Name).InEtcd(), "/registry")
	return &status.OfRequest{Err: fmt.Errorf("invalid key: %q", strings.TrimSuffix(key, "/"))}
}

func (q *request) gvr() schema.GroupVersionResource { return q.served.GVR() }

// allowed tells whether the path takes the verb.
func (q *request) allowed() bool {
	if q.sub != nil && q.sub.Connect != nil {
		// The verb is what was authorized. It follows from the method, except below /watch/ and for paths without a name, which are invalid.
		// OPTIONS has none.
		return slices.Contains(q.sub.Connect(nil).ConnectMethods(), q.r.Method) && (q.info.Verb == "" || q.sub.HasVerb(q.info.Verb))
	}
	verb, named := q.info.Verb, len(q.info.Parts) > 1
	if q.defined() && q.sub == nil && verb == "watch" {
		return true // below /watch/, whatever the method is
	}
	if q.r.Method == http.MethodHead && !q.defined() || q.r.Method == http.MethodOptions {
		return false
	}
	if q.sub != nil {
		return q.sub.HasVerb(verb)
	}
	if q.served.Computed != nil && verb == "watch" {
		verb = "list" // the handler rejects it, with a reason
	}
	if _, known := verbs[verb]; !known || !slices.Contains(q.served.Verbs(), verb) {
		return false
	}
	if strings.HasPrefix(verb, "watch") && q.r.Method != http.MethodGet {
		return false
	}
	if q.defined() {
		return true // the verb reports what a path lacks
	}
	switch verb {
	case "create", "deletecollection":
		return !named && (!q.served.Namespaced || q.info.Namespace != "" || inUnnamed(q.info))
	case "list", "watch":
		return true
	}
	return named
}

// tabular tells whether the path supports Tables: paths of objects, their status, or a kind derived from them do. Virtual types and other
// subresources do not.
func (q *request) tabular() bool {
	if q.sub == nil {
		return q.served.Virtual == nil
	}
	return q.sub.Name == "status" && !q.sub.NoTable || q.sub.Projection != nil
}

// negotiable describes the representations that the path supports.
func (q *request) negotiable() codec.Path {
	streams := len(q.info.Parts) == 1 && q.r.Method == http.MethodGet || q.info.Verb == "watch"
	return codec.Path{Watchable: q.sub == nil && streams, Tabular: q.tabular(), Direct: q.defined(), NoProtobuf: q.defined()}
}

// defined tells whether the type has no Go type, as those of CustomResourceDefinitions. In kube-apiserver another component serves these, with
// other messages.
func (q *request) defined() bool { return q.served.Untyped }

// untyped tells whether the path carries objects that have no Go type.
func (q *request) untyped() bool { return q.served.Untyped && q.kind == q.served.GroupVersionKind }

// format negotiates the format of the response.
func (q *request) format() (codec.Format, error) {
	f, err := q.offer.Negotiate(q.r, q.negotiable())
	if err != nil {
		return f, err
	}
	if f.As == codec.AsTable {
		f.Table, f.Refusal = tableOptions(q.r)
	}
	return f, nil
}

// saysOnlyDryRun tells whether a query has dryRun n times, always without a value: that means no dry run ("Dry-run" of the API concepts page). An
// empty value (dryRun=) is invalid, as in kube-apiserver.
func saysOnlyDryRun(query string, n int) bool {
	for part := range strings.SplitSeq(query, "&") {
		if part == "dryRun" {
			n--
		}
	}
	return n == 0
}

// decodeOptions decodes the options of a verb from the query.
func (q *request) decodeOptions(into runtime.Object) error {
	if q.r.URL.RawQuery == "" {
		return nil
	}
	query := q.r.URL.Query()
	if saysOnlyDryRun(q.r.URL.RawQuery, len(query["dryRun"])) {
		delete(query, "dryRun")
	}
	if err := metainternalversionscheme.ParameterCodec.DecodeParameters(query, metav1.SchemeGroupVersion, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
