// Package servertest makes servers for tests of what is seen through one.
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

// Quiet is a logger that says nothing.
var Quiet = slog.New(slog.DiscardHandler)

// logErrors has upstream's packages say errors alone: the others are tens of thousands of lines, in which a test that failed is not found.
var logErrors = sync.OnceFunc(func() {
	upstream.LogTo(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
})

// New makes a server of the built-in types on a store of its own, and returns what it was made of, too. It knows those who
// authenticate with Authenticate. change, when set, has the last word.
func New(t testing.TB, change func(*server.Config)) (*server.Server, server.Config) {
	t.Helper()
	logErrors()
	store, registry, groups := sqlitetest.Open(t), resources.NewRegistry(), builtin.Groups()
	registry.SetGroups(groups)
	c := server.Config{Registry: registry, Store: store, Pipeline: resources.NewPipeline(store, resources.PipelineOptions{}),
		Logger: Quiet, Authenticator: Authenticate,
		DisableAdmissionPlugins: []string{"ServiceAccount"}} // nobody makes ServiceAccounts here
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

// Authenticate knows "known", and "master", who may do everything, by their names in the header Authorization. Who has
// none is anonymous.
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

// Get sends a GET as a user whom Authenticate knows; "" for an anonymous one.
func Get(h http.Handler, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
