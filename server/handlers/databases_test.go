package handlers_test

import (
	"net/http"
	"sync/atomic"
	"testing"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// onEveryDatabase runs a test on SQLite, on Postgres, and on two servers of one Postgres, which take turns with the requests.
func onEveryDatabase(t *testing.T, test func(t *testing.T, a *api)) {
	t.Helper()
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) { test(t, newAPIs(t, stores)) })
}

// newAPIs starts a server for each store. They take turns with the requests.
func newAPIs(t *testing.T, stores []*sqlstore.Store) *api {
	t.Helper()
	var a *api
	var servers []http.Handler
	for _, store := range stores {
		one := newServer(t, utilfeature.DefaultMutableFeatureGate.DeepCopy(), store)
		servers = append(servers, one.Handler)
		if a == nil {
			a = one
			continue
		}
		a.registries = append(a.registries, one.registry)
	}
	var turn atomic.Int64
	a.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		servers[int(turn.Add(1))%len(servers)].ServeHTTP(w, r)
	})
	a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"test"}}`, code: 201})
	return a
}
