package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// When the scope of a definition has changed, earlier objects are found in their former scope, and an error says why they cannot be restored.
func TestHistoryOfAnotherScope(t *testing.T) {
	const definitions, boats = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "/apis/example.com/v1/namespaces/shop/boats"
	h := startHistorian(t, storePlace{dir: t.TempDir()})
	defer h.end()
	define := func(scope string) {
		send(t, h.client, "POST", definitions, `{"metadata":{"name":"boats.example.com"},"spec":{"group":"example.com","scope":"`+scope+`","names":{"plural":"boats","kind":"Boat"},
			"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`)
	}
	redefine := func(scope string) {
		send(t, h.client, "DELETE", definitions+"/boats.example.com", "")
		until(t, "the definition is gone", func() bool {
			return apierrors.IsNotFound(h.client.Discovery().RESTClient().Get().AbsPath(definitions + "/boats.example.com").Do(t.Context()).Error())
		})
		define(scope)
	}
	define("Namespaced")
	send(t, h.client, "POST", boats, `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"eight"}}`)
	redefine("Cluster")
	gone, made := "Delete system:apiserver - -", "Create kubernetes-admin "+filepath.Base(os.Args[0])+" -"
	if got := h.history(t, "boat/eight"); !slices.Equal(got, []string{gone, made}) {
		t.Errorf("the history of what was in a namespace is %q", got)
	}
	if got := completes(t, "undelete", "--data-dir", h.dir, "-n", "shop", "boats/"); got != "boats/eight\n:4\n" {
		t.Errorf("it is completed as %q", got)
	}
	h.refuses(t, "the history has nothing of boats.example.com/eight", "history", "boat/eight")
	h.refuses(t, "boats.example.com/shop/eight cannot be taken back: the server serves boats.example.com without namespaces now", "undelete", "boat/eight", "-n", "shop")
	send(t, h.client, "POST", "/apis/example.com/v1/boats", `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"four"}}`)
	redefine("Namespaced")
	h.refuses(t, "the history has nothing of boats.example.com/four in the namespace shop", "history", "boat/four", "-n", "shop")
	h.refuses(t, "the history has no deletion of boats.example.com/four in the namespace shop", "undelete", "boat/four", "-n", "shop")
	if got := h.rows(t, "boat/four"); !slices.Equal(got, []string{gone, made}) {
		t.Errorf("the history of what was in no namespace is %q", got)
	}
	h.refuses(t, "boats.example.com/four cannot be taken back: the server serves boats.example.com in namespaces now", "undelete", "boat/four")
	h.does(t, "undelete", "boat/eight", "-n", "shop")
	send(t, h.client, "POST", "/apis/example.com/v1/namespaces/default/boats", `{"apiVersion":"example.com/v1","kind":"Boat","metadata":{"name":"two"}}`)
	send(t, h.client, "DELETE", definitions+"/boats.example.com", "")
	until(t, "the definition is gone", func() bool {
		return apierrors.IsNotFound(h.client.Discovery().RESTClient().Get().AbsPath(definitions + "/boats.example.com").Do(t.Context()).Error())
	})
	for _, name := range []string{"two", "four"} { // in the namespace default, and cluster-scoped
		if got := h.rows(t, "boats.example.com/"+name); !slices.Equal(got, []string{gone, made}) {
			t.Errorf("the history of what is no longer served, %s, is %q", name, got)
		}
	}
}
