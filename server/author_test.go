package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// A change has the user, the impersonated user and the user agent of its request.
func TestChangesHaveAuthors(t *testing.T) {
	var store *sqlstore.Store
	s, _ := servertest.New(t, func(c *server.Config) { store = c.Store.(*sqlstore.Store) })
	for _, sent := range []struct{ method, path, body, as string }{
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"default"}}`, ""},
		{"POST", "/api/v1/namespaces/default/configmaps", `{"metadata":{"name":"a"}}`, ""},
		{"PATCH", "/api/v1/namespaces/default/configmaps/a", `{"data":{"a":"b"}}`, "jane"},
		{"DELETE", "/api/v1/namespaces/default/configmaps", ``, ""},
	} {
		r := httptest.NewRequest(sent.method, sent.path, strings.NewReader(sent.body))
		r.Header.Set("Content-Type", "application/json")
		if sent.method == "PATCH" {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
		r.Header.Set("Authorization", "known")
		r.Header.Set("User-Agent", "test/1")
		if sent.as != "" {
			r.Header.Set("Impersonate-User", sent.as)
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code/100 != 2 {
			t.Fatalf("%s %s: %d %s", sent.method, sent.path, w.Code, w.Body)
		}
	}
	changes, err := store.Changes(t.Context(), sqlstore.ChangesOptions{Resource: "configmaps", Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	got := []resources.Author{}
	for _, c := range changes {
		got = append(got, c.Author)
	}
	if diff := cmp.Diff([]resources.Author{
		{User: "known", Verb: "create", Agent: "test/1"},
		{User: "known", As: "jane", Verb: "patch", Agent: "test/1"},
		{User: "known", Verb: "deletecollection", Agent: "test/1"},
	}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
