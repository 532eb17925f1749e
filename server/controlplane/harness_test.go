package controlplane_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/sqlstore"
)

// patience is how long a test waits for what must come. It is only reached by a test that fails.
const patience = time.Minute

// kept is a server with its control plane, as clients see it.
type kept struct {
	*testing.T
	s     *server.Server
	p     *controlplane.Plane
	store resources.Store
}

// newWhole makes a server that knows everybody who says so, with what exists from the start.
func newWhole(t *testing.T, change func(*server.Config, *controlplane.Config)) kept {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"), Synchronous: "off", Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	pipeline := resources.NewPipeline(store, resources.PipelineOptions{})
	c := server.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet, Authenticator: func(r *http.Request) (user.Info, bool, error) {
		name := r.Header.Get("Authorization")
		return &user.DefaultInfo{Name: name}, name != "", nil
	}}
	pc := controlplane.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: quiet}
	if change != nil {
		change(&c, &pc)
	}
	s, err := server.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	pc.Front = s
	k := kept{t, s, controlplane.New(pc), store}
	if err := k.p.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	return k
}

func get(h http.Handler, path, authorization string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}
