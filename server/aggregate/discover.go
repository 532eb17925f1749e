package aggregate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
)

// acceptAggregated asks for aggregated discovery, with the older form as an alternative.
const acceptAggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// bounds are the limits on the answer to a request.
type bounds struct {
	time time.Duration
	size int64 // in bytes
}

// forDiscovery are the bounds of discovery. All of kube-apiserver's own takes 100 KB.
func (a *Aggregator) forDiscovery() bounds { return bounds{cmp.Or(a.askWithin, askTimeout), 16 << 20} }

// forDescriptions are the bounds of OpenAPI documents. The time is upstream's, which has no bound on the size.
var forDescriptions = bounds{time.Minute, 128 << 20}

// errSame says that the discovery of a server has not changed.
var errSame = errors.New("not modified")

// legacyProbing is the user of requests for the older form, as in upstream.
var legacyProbing user.Info = &user.DefaultInfo{Name: probing.GetName()}

// question is a request for the discovery of a version.
type question struct {
	a    *Aggregator
	gv   schema.GroupVersion
	etag string
}

// ask requests aggregated discovery, and the older form if the server has no other. Errors: errSame; any other says that the
// server did not answer properly.
func (q question) ask(ctx context.Context) (said *apidiscoveryv2.APIVersionDiscovery, etag string, err error) {
	b, err := q.a.Find(ctx, q.gv)
	switch {
	case err != nil:
		return nil, "", err
	case b == nil:
		return nil, "", errors.New("there is no such APIService")
	case b.transportErr != nil:
		return nil, "", b.transportErr
	}
	headers := []string{"Accept", acceptAggregated + ",application/json"}
	if q.etag != "" {
		headers = append(headers, "If-None-Match", q.etag)
	}
	code, header, body, err := b.read(ctx, "/apis", probing, q.a.forDiscovery(), headers...)
	switch {
	case err != nil:
		return nil, "", err
	case code == http.StatusNotModified:
		return nil, "", errSame
	case code == http.StatusServiceUnavailable:
		return nil, "", fmt.Errorf("answered with %d", code)
	case code == http.StatusOK && isAggregated(header.Get("Content-Type")):
		said, err = q.find(body)
		return said, header.Get("Etag"), err
	}
	said, err = q.askLegacy(ctx, b)
	return said, "", err
}

// read sends a GET and reads the answer.
func (b *Backend) read(ctx context.Context, path string, who user.Info, within bounds, headers ...string) (code int, header http.Header, body []byte, err error) {
	at, err := b.resolve(ctx)
	if err != nil {
		return 0, nil, nil, err
	}
	at.Path = path
	answer, err := b.ask(ctx, at, who, within.time, headers...)
	if err != nil {
		return 0, nil, nil, err
	}
	defer answer.Body.Close()
	body, err = readAll(answer, within.size)
	return answer.StatusCode, answer.Header, body, err
}

// readAll reads the body of an answer. Errors: also a body of more than limit bytes.
func readAll(answer *http.Response, limit int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, limit+1))
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("the answer to %s has more than %d bytes", answer.Request.URL.Path, limit)
	}
	return body, err
}

func isAggregated(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	return err == nil && media == "application/json" && params["g"] == apidiscoveryv2.GroupName && params["v"] == "v2" &&
		params["as"] == "APIGroupDiscoveryList"
}

// find returns the version from aggregated discovery, which has all that the server serves. A missing version is empty.
func (q question) find(body []byte) (*apidiscoveryv2.APIVersionDiscovery, error) {
	var all apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &all); err != nil {
		return nil, err
	}
	for _, g := range all.Items {
		for i := range g.Versions {
			if v := &g.Versions[i]; g.Name == q.gv.Group && v.Version == q.gv.Version {
				fillKinds(v.Resources)
				return v, nil
			}
		}
	}
	return &apidiscoveryv2.APIVersionDiscovery{}, nil
}

// fillKinds sets missing kinds: older clients fail without one (kubernetes issue 118361).
func fillKinds(list []apidiscoveryv2.APIResourceDiscovery) {
	for i := range list {
		r := &list[i]
		if r.ResponseKind == nil {
			r.ResponseKind = &metav1.GroupVersionKind{}
		}
		for j := range r.Subresources {
			if r.Subresources[j].ResponseKind == nil {
				r.Subresources[j].ResponseKind = &metav1.GroupVersionKind{}
			}
		}
	}
}

func (q question) askLegacy(ctx context.Context, b *Backend) (*apidiscoveryv2.APIVersionDiscovery, error) {
	code, _, body, err := b.read(ctx, discoveryPath(q.gv), legacyProbing, q.a.forDiscovery(), "Accept", "application/json")
	if err != nil {
		return nil, err
	}
	if code != http.StatusOK {
		return nil, fmt.Errorf("%s is answered with %d", discoveryPath(q.gv), code)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	described, err := describe(list.APIResources)
	return &apidiscoveryv2.APIVersionDiscovery{Resources: described}, err
}

// describe converts a list of the older form to the newer one. In the older form, subresources are resources with a slash in
// their names.
func describe(list []metav1.APIResource) ([]apidiscoveryv2.APIResourceDiscovery, error) {
	var all []apidiscoveryv2.APIResourceDiscovery
	at := map[string]int{}
	for _, r := range list {
		if !strings.Contains(r.Name, "/") {
			at[r.Name] = len(all)
			all = append(all, apidiscoveryv2.APIResourceDiscovery{Resource: r.Name, Scope: scope(r), ResponseKind: kind(r), Verbs: r.Verbs,
				ShortNames: r.ShortNames, Categories: r.Categories, SingularResource: r.SingularName})
		}
	}
	for _, r := range list {
		name, sub, ok := strings.Cut(r.Name, "/")
		if !ok {
			continue
		}
		i, known := at[name]
		if !known {
			i = len(all)
			at[name] = i
			all = append(all, apidiscoveryv2.APIResourceDiscovery{Resource: name, Scope: scope(r), ResponseKind: &metav1.GroupVersionKind{}})
		}
		if all[i].Scope != scope(r) {
			return nil, fmt.Errorf("%s is of another scope than %s", r.Name, name)
		}
		all[i].Subresources = append(all[i].Subresources, apidiscoveryv2.APISubresourceDiscovery{Subresource: sub, ResponseKind: kind(r), Verbs: r.Verbs})
	}
	return all, nil
}

func scope(r metav1.APIResource) apidiscoveryv2.ResourceScope {
	if r.Namespaced {
		return apidiscoveryv2.ScopeNamespace
	}
	return apidiscoveryv2.ScopeCluster
}

func kind(r metav1.APIResource) *metav1.GroupVersionKind {
	if r.Kind == "" {
		return &metav1.GroupVersionKind{}
	}
	return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
}
