package handlers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Authorization precedes everything else: reading the body, checking the format of the response, and looking up the object; at every path, with
// every verb.
func TestRefusedBeforeAnythingIsRead(t *testing.T) {
	a := newAPI(t)
	var asked []string
	a.authorize = func(_ context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
		asked = append(asked, strings.TrimSpace(attributes.GetVerb()+" "+attributes.GetResource()+" "+attributes.GetSubresource()))
		return authorizer.DecisionDeny, "", nil
	}
	paths := map[string]string{"POST /api/v1/namespaces/test/nothing": "create nothing", "PUT /apis/no.group/v1/all/a": "update all"}
	for _, g := range a.registry.Catalog().Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				root := "/apis/" + g.Name + "/" + v.Version
				if g.Name == "" {
					root = "/api/" + v.Version
				}
				if s.Namespaced {
					root += "/namespaces/test"
				}
				root += "/" + s.Resource
				paths["POST "+root], paths["DELETE "+root] = "create "+s.Resource, "deletecollection "+s.Resource
				for method, verb := range map[string]string{"PUT": "update", "PATCH": "patch", "DELETE": "delete"} {
					paths[method+" "+root+"/a"] = verb + " " + s.Resource
				}
				for sub := range s.Subresources {
					for method, verb := range map[string]string{"PUT": "update", "PATCH": "patch", "POST": "create", "DELETE": "delete", "GET": "get"} {
						paths[method+" "+root+"/a/"+sub] = verb + " " + s.Resource + " " + sub
					}
				}
			}
		}
	}
	if len(paths) < 500 {
		t.Fatalf("only %d paths", len(paths))
	}
	for do, want := range paths {
		asked = nil
		method, path, _ := strings.Cut(do, " ")
		r := httptest.NewRequest(method, path+"?dryRun=Bad&propagationPolicy=Bad", unreadable{t, do}).WithContext(t.Context())
		r.Header.Set("Content-Type", "application/no-such-thing")
		r.Header.Set("Accept", "application/no-such-thing")
		w := httptest.NewRecorder()
		a.ServeHTTP(w, r)
		if w.Code != http.StatusForbidden || gjson.Get(w.Body.String(), "reason").Str != "Forbidden" {
			t.Errorf("%s: %d %s", do, w.Code, w.Body)
		}
		if len(asked) != 1 || asked[0] != want {
			t.Errorf("%s: asked for %q, want %q", do, asked, want)
		}
	}
}

// unreadable is a body that must not be read.
type unreadable struct {
	t    *testing.T
	what string
}

func (u unreadable) Read([]byte) (int, error) {
	u.t.Errorf("%s: the body was read", u.what)
	return 0, errors.New("read")
}

var _ io.Reader = unreadable{}
