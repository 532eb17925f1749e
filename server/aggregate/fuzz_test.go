package aggregate

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FuzzDiscovery reads any answer of an APIService's server for discovery: each resource gets a kind, or the whole is refused.
func FuzzDiscovery(f *testing.F) {
	f.Add([]byte(`{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","items":[{"metadata":{"name":"g"},"versions":[{"version":"v1","resources":[{"resource":"a","subresources":[{"subresource":"b"}]}]}]}]}`))
	f.Add([]byte(`{"resources":[{"name":"a/b","kind":"X"},{"name":"a","namespaced":true,"kind":"A","verbs":["get"]},{"name":"/"},{"name":""}]}`))
	f.Add([]byte(`{"items":[{"versions":[null]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q := question{gv: schema.GroupVersion{Group: "g", Version: "v1"}}
		if said, err := q.find(body); err == nil {
			for _, r := range said.Resources {
				if r.ResponseKind == nil {
					t.Errorf("%s has no kind", r.Resource)
				}
			}
		}
		isAggregated(string(body))
		var list metav1.APIResourceList
		if json.Unmarshal(body, &list) == nil {
			if described, err := describe(list.APIResources); err == nil && len(described) > len(list.APIResources) {
				t.Errorf("%d resources of %d", len(described), len(list.APIResources))
			}
		}
	})
}
