// Package servertest makes servers for tests.
package servertest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// Quiet is a logger without output.
var Quiet = slog.New(slog.DiscardHandler)

// logErrors restricts the log of upstream's packages to errors: the rest is tens of thousands of lines, which would bury a failure.
var logErrors = sync.OnceFunc(func() {
	upstream.LogTo(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
})

// New makes a server of the built-in types on its own store, and returns its configuration, too. Its users are those of Authenticate. change, when
// set, may modify the configuration.
func New(t testing.TB, change func(*server.Config)) (*server.Server, server.Config) {
	t.Helper()
	logErrors()
	store, registry, groups := sqlitetest.Open(t), resources.NewRegistry(), builtin.Groups()
	registry.SetGroups(groups)
	c := server.Config{Registry: registry, Store: store, Pipeline: resources.NewPipeline(store, resources.PipelineOptions{}),
		Logger: Quiet, Authenticator: Authenticate,
		DisableAdmissionPlugins: []string{"ServiceAccount"}} // nothing creates ServiceAccounts here
	if change != nil {
		change(&c)
	}
	if c.Definitions == nil {
		c.Definitions = custom.New(custom.Config{Registry: c.Registry, Store: c.Store, Scheme: builtin.Scheme, Logger: c.Logger}, groups)
	}
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, c
}

// Authenticate accepts "known", and "master", who may do everything, as the value of the header Authorization. Without the header, the user is
// anonymous.
func Authenticate(r *http.Request) (user.Info, bool, error) {
	switch r.Header.Get("Authorization") {
	case "":
		return nil, false, nil
	case "known":
		return &user.DefaultInfo{Name: "known", Groups: []string{user.AllAuthenticated}}, true, nil
	case "master":
		return &user.DefaultInfo{Name: "master", Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}}, true, nil
	}
	return nil, false, errors.New("wrong")
}

// Get sends a GET as a user of Authenticate; "" is the anonymous one.
func Get(h http.Handler, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
