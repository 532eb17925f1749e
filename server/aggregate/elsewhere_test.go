package aggregate_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// orchard has the namespaced objects of the extension, if it has any.
type orchard struct {
	mu     sync.Mutex
	apples []metav1.PartialObjectMetadata
	// refused: deletecollection is refused.
	refused bool
	// log has the requests, with their users.
	log []string
}

func (o *orchard) grow(namespace, name string, finalizers ...string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apples = append(o.apples, metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}})
}

// release removes the finalizers, and the objects that were deleted.
func (o *orchard) release() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.apples = slices.DeleteFunc(o.apples, func(a metav1.PartialObjectMetadata) bool { return a.DeletionTimestamp != nil })
}

func (o *orchard) in(namespace string) (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.apples {
		if a.Namespace == namespace {
			names = append(names, a.Name)
		}
	}
	return names
}

// asked returns the requests so far.
func (o *orchard) asked() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.log)
}

func (o *orchard) serve(w http.ResponseWriter, r *http.Request) bool {
	below, ok := strings.CutPrefix(r.URL.Path, apples+"/namespaces/")
	o.mu.Lock()
	defer o.mu.Unlock()
	if !ok || len(o.apples) == 0 && len(o.log) == 0 {
		return false
	}

	namespace, rest, _ := strings.Cut(below, "/")
	name := strings.TrimPrefix(strings.TrimPrefix(rest, "apples"), "/")
	o.log = append(o.log, strings.Join([]string{r.Method, below, r.Header.Get("X-Remote-User")}, " "))
	matches := func(a metav1.PartialObjectMetadata) bool {
		return a.Namespace == namespace && (name == "" || a.Name == name)
	}
	switch {
	case r.Method == "DELETE" && name == "" && o.refused:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return true
	case r.Method == "DELETE":
		o.apples = slices.DeleteFunc(o.apples, func(a metav1.PartialObjectMetadata) bool { return matches(a) && len(a.Finalizers) == 0 })
		for i := range o.apples {
			if matches(o.apples[i]) {
				o.apples[i].DeletionTimestamp = &metav1.Time{}
			}
		}
	}
	list := metav1.PartialObjectMetadataList{Items: []metav1.PartialObjectMetadata{}}
	for _, a := range o.apples {
		if matches(a) {
			list.Items = append(list.Items, a)
		}
	}
	// Pages have one object each.
	if from := r.URL.Query().Get("continue"); from != "" {
		list.Items = list.Items[slices.IndexFunc(list.Items, func(a metav1.PartialObjectMetadata) bool { return a.Name == from }):]
	}
	if len(list.Items) > 1 {
		list.Continue = list.Items[1].Name
		list.Items = list.Items[:1]
	}
	_ = json.NewEncoder(w).Encode(list) // an error means that the client has left
	return true
}

// namespace creates a namespace, and returns its path.
func (f *fixture) namespace(name string) string {
	f.Helper()
	f.must("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`)
	return "/api/v1/namespaces/" + name
}

// until waits until a namespace satisfies a condition, or is gone.
func (f *fixture) until(what, namespace string, ok func(code int, ns gjson.Result) bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for {
		now, err := f.store.Snapshot(ctx, "namespaces", resources.At{Match: resources.MostRecent})
		if err != nil {
			f.Fatal(err)
		}
		code, answer := f.send("GET", namespace, "")
		if ok(code, gjson.Parse(answer)) {
			return
		}
		w, err := f.store.Watch(ctx, resources.WatchOptions{Resource: "namespaces", After: now.Revision()})
		if err != nil {
			f.Fatal(err)
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			f.Fatalf("never %s: %s", what, answer)
		}
		w.Close()
	}
}

func gone(code int, _ gjson.Result) bool { return code == http.StatusNotFound }

// The namespace controller deletes the objects of other servers in a namespace, and the namespace waits for objects that finalizers keep.
func TestNamespaceIsEmptied(t *testing.T) {
	for name, refused := range map[string]bool{"together": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			o := &f.ext.orchard
			f.ext.verbs.Store(`["create","delete","deletecollection","get","list"]`)
			o.refused = refused
			o.grow("meadow", "a")
			o.grow("meadow", "b")
			o.grow("meadow", "c", "example.com/worm")
			o.grow("other", "d")
			f.register()
			f.condition("Passed")
			meadow := f.namespace("meadow")
			f.must("DELETE", meadow, "")
			f.until("waiting", meadow, func(_ int, ns gjson.Result) bool {
				return ns.Get(`status.conditions.#(type=="NamespaceFinalizersRemaining").message`).Str ==
					"Some content in the namespace has finalizers remaining: example.com/worm in 1 resource instances"
			})
			_, ns := f.send("GET", meadow, "")
			if got := gjson.Get(ns, `status.conditions.#(type=="NamespaceContentRemaining").message`).Str; got != "Some resources are remaining: apples.apples.example.com has 1 resource instances" {
				t.Error(got)
			}
			if left := o.in("meadow"); !slices.Equal(left, []string{"c"}) {
				t.Errorf("left are %s", left)
			}
			o.release()
			f.until("gone", meadow, gone)
			if left := o.in("other"); len(left) != 1 {
				t.Error("another namespace was emptied, too")
			}
			for _, request := range o.asked() {
				if !strings.HasSuffix(request, " system:serviceaccount:kube-system:namespace-controller") {
					t.Error(request)
				}
			}
		})
	}
}

// A server that does not answer does not keep a namespace from being deleted; a condition of the namespace reports it meanwhile.
func TestNamespaceGoesWithoutDeadServer(t *testing.T) {
	f := newFixture(t)
	f.apiService()
	f.condition("ServiceNotFound")
	meadow := f.namespace("meadow")
	f.must("POST", meadow+"/configmaps", `{"metadata":{"name":"held","finalizers":["example.com/hold"]}}`)
	f.must("DELETE", meadow, "")
	f.until("waiting", meadow, func(_ int, ns gjson.Result) bool {
		c := ns.Get(`status.conditions.#(type=="NamespaceDeletionDiscoveryFailure")`)
		return c.Get("status").Str == "True" && c.Get("reason").Str == "DiscoveryFailed" && c.Get("message").Str == "Discovery failed for some groups, 1 failing: "+
			"unable to retrieve the complete list of server APIs: apples.example.com/v1: stale GroupVersion discovery: apples.example.com/v1"
	})
	f.must("PATCH", meadow+"/configmaps/held", `{"metadata":{"finalizers":null}}`, "Content-Type", "application/merge-patch+json")
	f.until("gone", meadow, gone)
}
