package authn_test

import (
	"crypto/x509"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// keyServer is a server with the keys of its database.
type keyServer struct {
	keys *pki.TokenKeys
	by   *authn.Authenticator
}

func newKeyServer(t *testing.T, store *sqlstore.Store, clock func() time.Time) *keyServer {
	t.Helper()
	p, err := pki.Open(pki.Options{DataDir: t.TempDir(), Names: []string{"localhost"}, Logger: servertest.Quiet, Shared: resources.NewRows(store)})
	if err != nil {
		t.Fatal(err)
	}
	s := &keyServer{}
	if s.keys, err = p.TokenKeys(pki.TokenKeyOptions{Issuer: issuer}); err != nil {
		t.Fatal(err)
	}
	if s.by, err = authn.New(authn.Options{ClientCAs: x509.NewCertPool, Audiences: []string{issuer}, Now: clock,
		ServiceAccounts: &authn.ServiceAccounts{Issuers: []string{issuer}, Keys: s.keys, Store: store, Secrets: &late{}}}); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *keyServer) accepts(token string) bool {
	r := httptest.NewRequest("GET", "/api", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	_, ok, _ := s.by.User(r)
	return ok
}

// A server that has learnt of the removal of a key refuses the key's tokens with the next request, although it has their results in its cache.
func TestRemovedKeysOnEveryServer(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) {
		const robot = `{"kind":"ServiceAccount","apiVersion":"v1","metadata":{"name":"robot","namespace":"space","uid":"u","resourceVersion":"0"}}`
		at := strings.Index(robot, `"0"`) + 1
		if _, err := stores[0].Commit(t.Context(), resources.Write{Op: resources.Create, Key: resources.Key{Resource: "serviceaccounts", Namespace: "space", Name: "robot"},
			Draft: resources.Draft{Data: []byte(robot), RevisionStart: at, RevisionEnd: at + 1}}); err != nil {
			t.Fatal(err)
		}
		now := time.Now() // it stands still, so that results in the caches do not end by their age
		var servers []*keyServer
		for _, store := range stores {
			servers = append(servers, newKeyServer(t, store, func() time.Time { return now }))
		}
		token := func() string {
			public, private, err := serviceaccount.Claims(core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "space", UID: "u"}}, nil, nil, nil, nil, nil, 3600, 0, []string{issuer}, nil)
			if err != nil {
				t.Fatal(err)
			}
			token, err := servers[0].keys.GenerateToken(t.Context(), public, private)
			if err != nil {
				t.Fatal(err)
			}
			return token
		}
		old := token()
		exchange(t, pki.NewKeyRing("", resources.NewRows(stores[0])), func() {
			for i, s := range servers {
				if !s.accepts(old) {
					t.Errorf("server %d refuses a token", i)
				}
			}
		})
		newer := token()
		for i, s := range servers {
			if _, err := stores[i].Snapshot(t.Context(), "serviceaccounts", resources.At{Match: resources.MostRecent}); err != nil { // it has all earlier writes then
				t.Fatal(err)
			}
			if s.accepts(old) || !s.accepts(newer) {
				t.Errorf("server %d: the removed key's token is accepted: %t, the newer one: %t", i, s.accepts(old), s.accepts(newer))
			}
		}
	})
}

// exchange makes a new key sign, calls before, and removes the former signing key.
func exchange(t *testing.T, ring *pki.KeyRing, before func()) {
	t.Helper()
	keys, err := ring.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	added, err := ring.Add(t.Context())
	if err == nil {
		err = ring.Sign(t.Context(), added)
	}
	if err != nil {
		t.Fatal(err)
	}
	before()
	if err := ring.Remove(t.Context(), keys[0].ID); err != nil {
		t.Fatal(err)
	}
}
