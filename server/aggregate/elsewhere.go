package aggregate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
)

// Bounds of requests for the namespace controller. A server that hangs delays the deletion of other namespaces that long.
const (
	deleteTimeout = time.Minute
	listTimeout   = 10 * time.Second
	maxList       = 128 << 20 // bytes of some hundred objects; a server without metadata-only lists sends them whole
)

// told is the discovery of a server for a version, or the error of requesting it.
type told struct {
	*Backend
	said *apidiscoveryv2.APIVersionDiscovery
	err  error
}

// Namespaced implements controllers.Elsewhere. It finds the servers in the most recent state of the store, as requests do, so that it
// misses no object that was created through one of them. It asks an available server again that has not answered lately.
func (a *Aggregator) Namespaced(ctx context.Context) (found []metav1.APIResource, unknown map[schema.GroupVersion]error, err error) {
	all, err := a.remotes(ctx)
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	var asked sync.WaitGroup
	for _, t := range all {
		asked.Go(func() { a.tell(ctx, t) })
	}
	asked.Wait()
	slices.SortFunc(all, func(a, b *told) int {
		return cmp.Or(strings.Compare(a.gv.Group, b.gv.Group), cmp.Compare(b.priority, a.priority), strings.Compare(a.gv.Version, b.gv.Version))
	})
	unknown = map[schema.GroupVersion]error{}
	seen := map[schema.GroupResource]bool{}
	for _, t := range all {
		if t.err != nil {
			unknown[t.gv] = t.err
			continue
		}
		for _, r := range t.said.Resources {
			of := schema.GroupResource{Group: t.gv.Group, Resource: r.Resource}
			if r.Scope == apidiscoveryv2.ScopeNamespace && !seen[of] {
				seen[of] = true
				found = append(found, metav1.APIResource{Group: t.gv.Group, Version: t.gv.Version, Name: r.Resource, Namespaced: true, Verbs: r.Verbs})
			}
		}
	}
	return found, unknown, nil
}

// remotes returns the APIServices with a Service.
func (a *Aggregator) remotes(ctx context.Context) (all []*told, failed error) {
	t, ok := a.Registry.CatalogOf(ctx).Type(apiServicesResource)
	if !ok {
		return nil, nil
	}
	snapshot, err := a.Store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil, err
	}
	snapshot.Ascend("", "", func(o *resources.Object) bool {
		if !bytes.Contains(o.Data, []byte(`"service":`)) {
			return true // there may be thousands without a Service
		}
		var b *Backend
		if b, failed = a.backendOf(t, o); failed == nil && !b.local() {
			all = append(all, &told{Backend: b})
		}
		return failed == nil
	})
	return all, failed
}

// tell requests the discovery of a server, if it is not known.
func (a *Aggregator) tell(ctx context.Context, t *told) {
	if !t.available {
		t.err = fmt.Errorf("stale GroupVersion discovery: %v", t.gv) // client-go's message
		return
	}
	if t.said = a.sources.lately(t.gv); t.said == nil {
		t.said, _, t.err = question{a: a, gv: t.gv}.ask(ctx)
	}
}

// lately returns the last discovery of a server; nil: it was not asked, or did not answer the last time.
func (s *sources) lately(gv schema.GroupVersion) *apidiscoveryv2.APIVersionDiscovery {
	s.mu.Lock()
	defer s.mu.Unlock()
	if src := s.all[gv.Version+"."+gv.Group]; src != nil && src.fresh {
		return src.said
	}
	return nil
}

// page is the number of objects in a page of a list.
const page = 500

// List implements controllers.Elsewhere.
func (a *Aggregator) List(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, next string) (*metav1.PartialObjectMetadataList, error) {
	query := url.Values{"limit": {strconv.Itoa(page)}}
	if next != "" {
		query.Set("continue", next)
	}
	answer, err := a.send(ctx, http.MethodGet, who, gvr, []string{"namespaces", namespace, gvr.Resource}, query, nil, listTimeout,
		"Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	if err != nil {
		return nil, err
	}
	list := &metav1.PartialObjectMetadataList{}
	return list, json.Unmarshal(answer, list)
}

// Delete implements controllers.Elsewhere.
func (a *Aggregator) Delete(ctx context.Context, who user.Info, gvr schema.GroupVersionResource, namespace, name string) error {
	path := []string{"namespaces", namespace, gvr.Resource}
	if name != "" {
		path = append(path, name)
	}
	_, err := a.send(ctx, http.MethodDelete, who, gvr, path, nil, []byte(`{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Background"}`),
		deleteTimeout, "Accept", "application/json", "Content-Type", "application/json")
	return err
}

// send sends a request to the server of a version, and returns the body of the answer, or the error that the answer stands for.
func (a *Aggregator) send(ctx context.Context, method string, who user.Info, gvr schema.GroupVersionResource, path []string, query url.Values, body []byte,
	timeout time.Duration, headers ...string) ([]byte, error) {
	b, err := a.Find(ctx, gvr.GroupVersion())
	if err != nil {
		return nil, err
	}
	if b == nil || !b.available || b.transportErr != nil {
		return nil, errUnavailable
	}
	at, err := b.resolve(ctx)
	if err != nil {
		return nil, err
	}
	at = at.JoinPath(append([]string{discoveryPath(gvr.GroupVersion())}, path...)...)
	at.RawQuery = query.Encode()
	reply, err := b.request(ctx, method, at, who, body, timeout, headers...)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	answer, err := readAll(reply, maxList)
	if err != nil || reply.StatusCode < http.StatusMultipleChoices {
		return answer, err
	}
	status := metav1.Status{}
	if json.Unmarshal(answer, &status) == nil && status.Kind == "Status" && status.Status == metav1.StatusFailure {
		return nil, &apierrors.StatusError{ErrStatus: status}
	}
	return nil, apierrors.NewGenericServerResponse(reply.StatusCode, method, gvr.GroupResource(), "", string(answer[:min(len(answer), 1000)]), 0, true)
}
