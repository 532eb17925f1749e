package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// whoAmI asks for the user as whom a request with these headers is answered.
func whoAmI(t *testing.T, h http.Handler, headers http.Header) (int, authenticationv1.UserInfo, string) {
	t.Helper()
	r := httptest.NewRequest("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", strings.NewReader(`{}`))
	r.Header = headers
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	var answer struct {
		Message string
		Status  json.RawMessage
	}
	var review authenticationv1.SelfSubjectReviewStatus
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%s: %v", w.Body, err)
	}
	if w.Code == http.StatusCreated {
		if err := json.Unmarshal(answer.Status, &review); err != nil {
			t.Fatal(err)
		}
	}
	return w.Code, review.UserInfo, answer.Message
}

// The expected responses were recorded from kube-apiserver.
func TestImpersonation(t *testing.T) {
	type extra = map[string]authenticationv1.ExtraValue
	for name, c := range map[string]struct {
		headers http.Header
		want    authenticationv1.UserInfo
	}{
		"nobody": {http.Header{}, authenticationv1.UserInfo{Username: "known", Groups: []string{"system:authenticated"}}},
		"a user": {http.Header{"Impersonate-User": {"jane"}},
			authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:authenticated"}}},
		"everything": {http.Header{"Impersonate-User": {"jane"}, "Impersonate-Uid": {"7"}, "Impersonate-Group": {"g", ",,h"},
			"Impersonate-Extra-Example.com%2fk": {"a b", "c,d"}, "Impersonate-Extra-Other": {"e"}},
			authenticationv1.UserInfo{Username: "jane", UID: "7", Groups: []string{"g", ",,h", "system:authenticated"},
				Extra: extra{"example.com/k": {"a b", "c,d"}, "other": {"e"}}}},
		"a group that says it": {http.Header{"Impersonate-User": {"jane"}, "Impersonate-Group": {"system:authenticated", "g"}},
			authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:authenticated", "g"}}},
		"unauthenticated": {http.Header{"Impersonate-User": {"jane"}, "Impersonate-Group": {"system:unauthenticated"}},
			authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:unauthenticated"}}},
		"a service account": {http.Header{"Impersonate-User": {"system:serviceaccount:n:sa"}},
			authenticationv1.UserInfo{Username: "system:serviceaccount:n:sa",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:n", "system:authenticated"}}},
		"a service account in another group": {http.Header{"Impersonate-User": {"system:serviceaccount:n:sa"}, "Impersonate-Group": {"g"}},
			authenticationv1.UserInfo{Username: "system:serviceaccount:n:sa", Groups: []string{"g", "system:authenticated"}}},
		// This does not depend on whether anonymous clients are allowed.
		"the anonymous user": {http.Header{"Impersonate-User": {"system:anonymous"}},
			authenticationv1.UserInfo{Username: "system:anonymous", Groups: []string{"system:unauthenticated"}}},
		"a node": {http.Header{"Impersonate-User": {"system:node:n1"}},
			authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}},
		"a node in another group": {http.Header{"Impersonate-User": {"system:node:n1"}, "Impersonate-Group": {"g"}},
			authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"g", "system:authenticated"}}},
		"no node": {http.Header{"Impersonate-User": {"system:node:N_1"}},
			authenticationv1.UserInfo{Username: "system:node:N_1", Groups: []string{"system:authenticated"}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newServer(t, nil).Handler() // without earlier impersonations
			c.headers.Set("Authorization", "known")
			code, got, message := whoAmI(t, h, c.headers)
			if diff := cmp.Diff(c.want, got); code != http.StatusCreated || diff != "" {
				t.Errorf("%d %s (-want +got):\n%s", code, message, diff)
			}
		})
	}
}

func TestImpersonationRefused(t *testing.T) {
	h := newServer(t, nil).Handler()
	for name, c := range map[string]struct {
		headers http.Header
		code    int
		message string
	}{
		"by an anonymous client": {http.Header{"Impersonate-User": {"jane"}}, 401, "Unauthorized"},
		"groups alone": {http.Header{"Authorization": {"known"}, "Impersonate-Group": {"g"}}, 400,
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name`},
		"a uid alone": {http.Header{"Authorization": {"known"}, "Impersonate-Uid": {"7"}}, 400,
			`requested &user.DefaultInfo{Name:"", UID:"7", Groups:[]string(nil), Extra:map[string][]string(nil)} without impersonating a user name`},
		"extra alone": {http.Header{"Authorization": {"known"}, "Impersonate-Extra-K": {"v"}}, 400,
			`requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string(nil), Extra:map[string][]string{"k":[]string{"v"}}} without impersonating a user name`},
	} {
		t.Run(name, func(t *testing.T) {
			if code, _, message := whoAmI(t, h, c.headers); code != c.code || message != c.message {
				t.Errorf("%d %s", code, message)
			}
		})
	}
}

// The mode of a user's last impersonation is tried first: only the node modes give a node its group.
func TestLastImpersonationComesFirst(t *testing.T) {
	h := newServer(t, nil).Handler()
	node := func(want ...string) {
		t.Helper()
		_, got, _ := whoAmI(t, h, http.Header{"Authorization": {"known"}, "Impersonate-User": {"system:node:n1"}})
		if diff := cmp.Diff(want, got.Groups); diff != "" {
			t.Errorf("groups of a node (-want +got):\n%s", diff)
		}
	}
	node("system:nodes", "system:authenticated")
	if code, _, message := whoAmI(t, h, http.Header{"Authorization": {"known"}, "Impersonate-User": {"system:node:n1"}, "Impersonate-Group": {"g"}}); code != 201 {
		t.Fatal(code, message)
	}
	node("system:authenticated")
	if code, _, message := whoAmI(t, h, http.Header{"Authorization": {"known"}, "Impersonate-User": {"jane"}}); code != 201 {
		t.Fatal(code, message)
	}
	node("system:authenticated") // jane's last mode was the legacy one
}

// With ConstrainedImpersonation=false, authorization follows kube-apiserver's older filter: the order differs, and names and groups have no
// version. The client is not told of a failing authorizer.
func TestUnconstrainedImpersonation(t *testing.T) {
	var asked []string
	h := newServer(t, func(c *server.Config) {
		gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
		if err := gates.SetFromMap(map[string]bool{"ConstrainedImpersonation": false}); err != nil {
			t.Fatal(err)
		}
		c.Features = gates
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Authorizer: authorizer.AuthorizerFunc(
			func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() != "impersonate" {
					return authorizer.DecisionAllow, "", nil
				}
				asked = append(asked, strings.Join([]string{a.GetAPIGroup(), a.GetAPIVersion(), a.GetResource(), a.GetName()}, "|"))
				switch failed := errors.New("out of order"); a.GetName() {
				case "broken":
					return authorizer.DecisionNoOpinion, "", failed
				case "refused":
					return authorizer.DecisionDeny, "not you", failed
				case "allowed":
					return authorizer.DecisionAllow, "", failed
				}
				return authorizer.DecisionAllow, "", nil
			})})
	}).Handler()
	all := http.Header{"Authorization": {"known"}, "Impersonate-User": {"jane"}, "Impersonate-Group": {"g"}, "Impersonate-Uid": {"7"}, "Impersonate-Extra-K": {"v"}}
	if code, _, message := whoAmI(t, h, all.Clone()); code != 201 {
		t.Fatal(code, message)
	}
	if diff := cmp.Diff([]string{"||users|jane", "||groups|g", "authentication.k8s.io|v1|userextras|v", "authentication.k8s.io|v1|uids|7"}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	for name, reason := range map[string]string{"broken": "", "refused": ": not you", "allowed": ""} {
		code, _, message := whoAmI(t, h, http.Header{"Authorization": {"known"}, "Impersonate-User": {name}})
		want := `users "` + name + `" is forbidden: User "known" cannot impersonate resource "users" in API group "" at the cluster scope` + reason
		if code != 403 || message != want {
			t.Errorf("a failing authorizer: %d %s", code, message)
		}
	}
	all.Del("Impersonate-User")
	code, _, message := whoAmI(t, h, all)
	if want := "requested [{Group  g    } {UserExtra  v  authentication.k8s.io/v1  k} {UID  7  authentication.k8s.io/v1  }] without impersonating a user"; code != 400 || message != want {
		t.Errorf("nobody by name: %d %s", code, message)
	}
}

// With the feature gate on, the client gets the error of a failing authorizer, together with its reason.
func TestImpersonationBesideFailingAuthorizer(t *testing.T) {
	for name, c := range map[string]struct {
		reason string
		failed error
		want   string
	}{
		"an error":              {"", errors.New("out of order"), ": out of order"},
		"an error and a reason": {"not you", errors.New("out of order"), ": out of order: not you"},
		"a reason":              {"not you", nil, ": not you"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newServer(t, func(s *server.Config) {
				s.Pipeline = resources.NewPipeline(s.Store.(resources.Store), resources.PipelineOptions{Authorizer: authorizer.AuthorizerFunc(
					func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
						if a.GetResource() == "users" {
							return authorizer.DecisionNoOpinion, c.reason, c.failed
						}
						return authorizer.DecisionAllow, "", nil
					})})
			}).Handler()
			code, _, message := whoAmI(t, h, http.Header{"Authorization": {"known"}, "Impersonate-User": {"jane"}})
			want := `users.authentication.k8s.io "jane" is forbidden: User "known" cannot impersonate:user-info resource "users" in API group "authentication.k8s.io" at the cluster scope` + c.want
			if code != 403 || message != want {
				t.Errorf("%d %s", code, message)
			}
		})
	}
}
