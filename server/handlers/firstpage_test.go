package handlers

import (
	"slices"
	"testing"
	"time"

	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// The answer to the deletion of a collection has the metadata of the first page that kube-apiserver reads. With resourceVersion=0 that page has all
// objects, except for a type without a watch cache.
func TestMarkFirstPage(t *testing.T) {
	h := &Handlers{age: newListAge(0, time.Now)}
	objects := slices.Repeat([]*resources.Object{{Key: resources.Key{Resource: "things", Name: "a"}}}, collectionPage+1)
	for _, tc := range []struct {
		version          string
		limit            int64
		uncached, marked bool
	}{
		{"", 0, false, true}, {"5", 0, false, true}, {"", collectionPage + 2, false, false},
		{"0", 0, false, false}, {"0", 0, true, true},
	} {
		q := &request{served: &resources.Served{Type: &resources.Type{Uncached: tc.uncached}}}
		m := metav1.ListMeta{ResourceVersion: "7"}
		h.markFirstPage(q, &metainternalversion.ListOptions{ResourceVersion: tc.version, Limit: tc.limit}, objects, &m)
		if marked := m.Continue != "" && m.RemainingItemCount != nil && *m.RemainingItemCount == 1; marked != tc.marked || !marked && (m.Continue != "" || m.RemainingItemCount != nil) {
			t.Errorf("%+v: %+v", tc, m)
		}
	}
}
