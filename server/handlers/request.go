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
	// offer is which encodings there are.
	offer *codec.Offer
	runs  *runs.Cache
	sent  *sentBody
	// counts is told of the body.
	counts counts
	// audit is what is recorded of the request; nil: nothing.
	audit *auditing.Request

	// found is the type of the path, and served the one by which objects are read and shown: a deletion may show them otherwise.
	found, served *resources.Served

	sub *resources.Subresource // nil for the type itself
	// kind is what bodies carry: that of the subresource where it has its own.
	kind schema.GroupVersionKind
	// written: the request has done what it was to do, and only its answer is left.
	written bool
}

// resource is the type as errors name it.
func (q *request) resource() schema.GroupResource {
	return schema.GroupResource{Group: q.info.APIGroup, Resource: q.info.Resource}
}

// namespace is that of the objects asked for; a namespace is in none, whatever its path looks like.
func (q *request) namespace() string {
	if !q.served.Namespaced {
		return ""
	}
	return q.info.Namespace
}

// inNoKey refuses a namespace that can be in no key of etcd, in which kube-apiserver would look. A creation asks for the namespace before.
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
		// The verb is what was authorized. It is that of the method, but below /watch/ and where the object has no name: these lead
		// nowhere. OPTIONS has none.
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
		verb = "list" // it is refused there, with a reason
	}
	if _, known := verbs[verb]; !known || !slices.Contains(q.served.Verbs(), verb) {
		return false
	}
	if strings.HasPrefix(verb, "watch") && q.r.Method != http.MethodGet {
		return false
	}
	if q.defined() {
		return true // what a path lacks is said by the verb
	}
	switch verb {
	case "create", "deletecollection":
		return !named && (!q.served.Namespaced || q.info.Namespace != "" || inUnnamed(q.info))
	case "list", "watch":
		return true
	}
	return named
}

// tabular tells whether the path has tables: where there are objects, their status, or a kind made of them. Operations
// have none, nor have the other subresources.
func (q *request) tabular() bool {
	if q.sub == nil {
		return q.served.Virtual == nil
	}
	return q.sub.Name == "status" && !q.sub.NoTable || q.sub.Projection != nil
}

// negotiable is what the path can answer with.
func (q *request) negotiable() codec.Path {
	streams := len(q.info.Parts) == 1 && q.r.Method == http.MethodGet || q.info.Verb == "watch"
	return codec.Path{Watchable: q.sub == nil && streams, Tabular: q.tabular(), Direct: q.defined(), NoProtobuf: q.defined()}
}

// defined tells whether the type is defined by an object. Another part of kube-apiserver answers for it then, with other words for
// the same.
func (q *request) defined() bool { return q.served.Untyped }

// untyped tells whether the path carries objects that have no Go type.
func (q *request) untyped() bool { return q.served.Untyped && q.kind == q.served.GroupVersionKind }

// format negotiates the answer.
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

// saysOnlyDryRun tells whether dryRun stands n times in a query, each time without a value: that means no dry run ("Dry-run" of the
// API concepts page). An empty value (dryRun=) is refused, as by kube-apiserver.
func saysOnlyDryRun(query string, n int) bool {
	for part := range strings.SplitSeq(query, "&") {
		if part == "dryRun" {
			n--
		}
	}
	return n == 0
}

// decodeOptions reads the options of a verb from the query.
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
