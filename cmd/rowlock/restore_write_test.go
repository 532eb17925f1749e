package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// What controllers create or write between the look at an object and the dry run of its write is updated all the same.
func TestRestoreBesideControllers(t *testing.T) {
	const (
		live   = `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"shop","uid":"now","resourceVersion":"%d"}}`
		status = `{"kind":"Status","apiVersion":"v1","status":"Failure","message":%q,"reason":%[1]q,"code":%d}`
	)
	for refused, lookups := range map[string]int{"AlreadyExists": 1, "Conflict": 0} {
		t.Run(refused, func(t *testing.T) {
			var did []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/api/v1" {
					fmt.Fprint(w, `{"resources":[{"name":"serviceaccounts","kind":"ServiceAccount","namespaced":true}]}`)
					return
				}
				did = append(did, r.Method+" "+r.URL.Query().Get("dryRun"))
				switch {
				case r.Method == http.MethodGet && len(did) == lookups:
					w.WriteHeader(http.StatusNotFound)
					fmt.Fprintf(w, status, "NotFound", http.StatusNotFound)
				case r.Method != http.MethodGet && len(did) == 2:
					w.WriteHeader(http.StatusConflict)
					fmt.Fprintf(w, status, refused, http.StatusConflict)
				default:
					fmt.Fprintf(w, live, len(did))
				}
			}))
			defer server.Close()
			p := &part{resource: "serviceaccounts", object: &unstructured.Unstructured{}}
			if err := p.object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":"default","namespace":"shop","labels":{"of":"us"}}}`)); err != nil {
				t.Fatal(err)
			}
			take := &takeBack{client: &adminClient{server.URL, server.Client()}, out: io.Discard, resources: map[string]*servedResources{}, uids: map[types.UID]types.UID{}}
			if err := take.group(t.Context(), []*part{p}); err != nil {
				t.Error(err)
			}
			want := []string{"GET ", "PUT All", "GET ", "PUT All", "PUT "}
			if refused == "AlreadyExists" {
				want[1] = "POST All"
			}
			if !slices.Equal(did, want) {
				t.Errorf("it asked for %q, want %q", did, want)
			}
		})
	}
}
