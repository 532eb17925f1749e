package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// An object that a controller creates or writes between the read of the object and the dry run of its write is updated nevertheless.
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
			take := &takeBack{client: &adminClient{host: server.URL, client: server.Client()}, out: io.Discard, resources: map[string]*servedResources{}, uids: map[types.UID]types.UID{}}
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

// A restore that was killed after writing an object, and before restoring its field managers, continues there when it is run again.
func TestRestoreGoesOn(t *testing.T) {
	dir, file := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "backup")
	p := start(t, "--data-dir", dir)
	defer p.end()
	client := p.client(t)
	const maps, object = "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"},"data":{"v":"1"}}`
	managers := func() (names []string) {
		t.Helper()
		m, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, by := range m.ManagedFields {
			names = append(names, by.Manager)
		}
		return names
	}
	send(t, client, "POST", maps, object)
	was := managers()
	runs(t, "backup", file, "--data-dir", dir)
	send(t, client, "DELETE", maps+"/a", "")
	if err := client.CoreV1().RESTClient().Post().AbsPath(maps).Param("fieldManager", takeBackManager).SetHeader("Content-Type", "application/json").
		Body([]byte(object)).Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
	for _, does := range []string{"updated", "unchanged"} {
		out := runs(t, "restore", file, "--data-dir", dir, "--object", "configmap/default/a")
		if !strings.Contains(out, "configmaps/default/a: "+does+"\n") || !slices.Equal(managers(), was) {
			t.Errorf("%swant %s, and %v as managers: %v", out, does, was, managers())
		}
	}
}
