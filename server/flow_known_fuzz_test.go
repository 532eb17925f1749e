package server_test

import (
	"math/rand/v2"
	"net/http/httptest"
	"testing"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzKnownFlows chooses FlowSchemas and levels by bytes, changes them, and sends requests of users with groups: each comes under the FlowSchema and
// the level that upstream's matching finds for it.
func FuzzKnownFlows(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for n := range 20 {
		seed := make([]byte, 20*n)
		_, _ = random.Read(seed)
		f.Add(seed)
	}
	n := newNarrow(f, nil)
	close(n.store.release)
	round := 0
	users := []string{"a", "b", "system:serviceaccount:x:c", "system:serviceaccount:y:c"}
	groups := [][]string{nil, {"dogs"}, {"cats"}, {"dogs", "cats"}, {"cats", "dogs"}, {"system:masters"}}
	paths := []string{quick, "/api/v1/namespaces/x/pods/p", "/api/v1/namespaces/y/pods/p", "/api/v1/namespaces/x/pods/p/status", "/apis/apps/v1/namespaces/x/deployments/d",
		"/api/v1/namespaces/y/pods", "/api/v1/nodes", "/version", "/api/v1/namespaces/x/pods?watch=true&timeoutSeconds=0&resourceVersion=x"}
	under := func(who string, groups []string, path string, on bool) string {
		defer fastpath.Seats.Turn(on)()
		r := httptest.NewRequest("GET", path, nil)
		r.Header.Set("Authorization", "master")
		r.Header.Set("Impersonate-User", who)
		r.Header["Impersonate-Group"] = groups
		w := httptest.NewRecorder()
		n.Handler().ServeHTTP(w, r)
		return w.Header().Get("X-Kubernetes-Pf-Flowschema-Uid") + " " + w.Header().Get("X-Kubernetes-Pf-Prioritylevel-Uid")
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		bytes = bytes[:min(len(bytes), 150)]
		from := chosen(bytes)
		for len(from) > 0 {
			round++
			n.UseFlows(randomFlows(&from, users, round))
			for range 2 + from.IntN(20) {
				who, with, path := users[from.IntN(len(users))], groups[from.IntN(len(groups))], paths[from.IntN(len(paths))]
				want, first, again := under(who, with, path, false), under(who, with, path, true), under(who, with, path, true)
				if first != want || again != want || want == " " {
					t.Fatalf("%s of %q, %s: upstream says %q, known is %q, then %q", who, with, path, want, first, again)
				}
			}
		}
	})
}

// chosen are choices by bytes, and the first choice when there are none left.
type chosen []byte

// IntN implements choices.
func (c *chosen) IntN(n int) int {
	if len(*c) == 0 {
		return 0
	}
	one := int((*c)[0]) % n
	*c = (*c)[1:]
	return one
}
