package handlers_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/sqlstore"
)

// The tests of this package are tables of requests and responses, a file for each section of the API concepts page. Where the page is silent, the
// expected responses are those of kube-apiserver v1.37.

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long a test waits for an expected event. Only a failing test reaches it.
const patience = 2 * time.Minute

// api is a whole server over a fresh store, without a network.
type api struct {
	testing.TB
	http.Handler
	registry *resources.Registry
	// registries are those of all servers, if there are several (newAPIs).
	registries []*resources.Registry
	store      *interruptedStore
	// definitions are those of the first server.
	definitions *custom.Definitions
	// authorize is the authorizer; nil: everything is allowed.
	authorize func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error)
	// work runs the server's background work and controllers until the test ends.
	work func()
	// later is the offset of the server's clock, which otherwise stands still.
	later atomic.Int64
	// kept are values of earlier responses, by the name under which they were kept.
	kept map[string]string
}

// newAPI starts a server with the default namespaces, and "test".
func newAPI(t testing.TB) *api {
	t.Helper()
	return newAPIWith(t, nil)
}

// newAPIWith starts a server with some of kube-apiserver's features on. change, when given, may modify the configuration.
func newAPIWith(t testing.TB, features map[string]bool, change ...func(*server.Config)) *api {
	t.Helper()
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gates.SetFromMap(features); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "rowlock.db")
	if err := os.WriteFile(file, bootstrapped(t), 0o600); err != nil {
		t.Fatal(err)
	}
	a := newServer(t, gates, openStore(t, file), change...)
	a.run(exchange{do: "POST /api/v1/namespaces", body: `{"metadata":{"name":"test"}}`, code: 201})
	return a
}

// openStore opens a store in a file until the test ends.
func openStore(t testing.TB, file string) *sqlstore.Store {
	t.Helper()
	store, err := sqlstore.Open(t.Context(), sqlstore.Options{URL: "sqlite://" + file, Synchronous: "off", MaxObjectBytes: 1536 << 10,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// newServer starts a server on a store.
func newServer(t testing.TB, gates featuregate.FeatureGate, store resources.Store, change ...func(*server.Config)) *api {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	interrupted := &interruptedStore{Store: store}
	registry := resources.NewRegistry()
	groups := builtin.Groups()
	definitions := custom.New(custom.Config{Registry: registry, Store: interrupted, Scheme: builtin.Scheme, Logger: quiet}, groups)
	registry.SetGroups(groups)
	start := time.Now()
	a := &api{TB: t, registry: registry, registries: []*resources.Registry{registry}, store: interrupted, definitions: definitions, kept: map[string]string{}}
	pipeline := resources.NewPipeline(interrupted, resources.PipelineOptions{Authorizer: authorizer.AuthorizerFunc(a.Authorize)})
	config := server.Config{Registry: registry, Definitions: definitions, Store: interrupted, Logger: quiet, Features: gates,
		HistoryAge: sqlstore.DefaultHistoryAge, Now: func() time.Time { return start.Add(time.Duration(a.later.Load())) },
		Remote:   server.RemoteHeaders{Users: []string{"X-Front-User"}, Extras: []string{"X-Front-Extra-"}},
		Pipeline: pipeline, DisableAdmissionPlugins: []string{"ServiceAccount"}, // nothing creates ServiceAccounts here
		Authenticator: func(*http.Request) (user.Info, bool, error) {
			return &user.DefaultInfo{Name: "admin", Groups: []string{user.SystemPrivilegedGroup}}, true, nil
		}}
	for _, f := range change {
		f(&config)
	}
	s, err := server.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	plane := controlplane.New(controlplane.Config{Registry: registry, Definitions: definitions, Store: interrupted, Pipeline: pipeline, Logger: quiet, Front: s})
	if err := plane.Bootstrap(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Handler = s.Handler()
	a.work = func() {
		network := controlplane.Network{ServiceRanges: builtin.DefaultServiceNetwork().Ranges, Port: 6443}
		if err := plane.BootstrapServices(a.Context(), network); err != nil {
			a.Fatal(err)
		}
		ctx, stop := context.WithCancel(a.Context())
		var work errgroup.Group
		work.Go(func() error { plane.Keep(ctx, network); return nil })
		work.Go(func() error { definitions.Run(ctx); return nil })
		work.Go(func() error {
			return controllers.Run(ctx, controllers.Config{Registry: registry, Store: interrupted, Pipeline: pipeline, Logger: quiet, Enabled: controllers.Names()})
		})
		a.Cleanup(func() {
			stop()
			if err := work.Wait(); err != nil {
				a.Error(err)
			}
		})
	}
	return a
}

// until waits until a condition holds for the objects of a resource.
func (a *api) until(resource, what string, ok func() bool) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Context(), patience)
	defer cancel()
	for {
		now, err := a.store.Snapshot(ctx, resource, resources.At{Match: resources.MostRecent})
		if err != nil {
			a.Fatal(err)
		}
		if ok() {
			return
		}
		w, err := a.store.Watch(ctx, resources.WatchOptions{Resource: resource, After: now.Revision()})
		if err != nil {
			a.Fatal(err)
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			a.Fatalf("%s: it was waited for in vain", what)
		}
		w.Close()
	}
}

// Authorize implements the function of authorizer.Authorizer.
func (a *api) Authorize(ctx context.Context, attributes authorizer.Attributes) (authorizer.Decision, string, error) {
	if a.authorize == nil {
		return authorizer.DecisionAllow, "", nil
	}
	return a.authorize(ctx, attributes)
}

// interruptedStore lets a test act between a request's read and its write, or between that and the response.
type interruptedStore struct {
	resources.Store
	mu            sync.Mutex
	before, after func()
	// unavailable is how many times watches fail before they continue.
	unavailable atomic.Int64
	// silent is a resource whose watches fail until the value changes; each failure is signalled if failed has a receiver.
	silent atomic.Value
	failed chan struct{}
}

func (s *interruptedStore) Watch(ctx context.Context, o resources.WatchOptions) (resources.Watch, error) {
	w, err := s.Store.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return interruptedWatch{w, s, o.Resource}, nil
}

type interruptedWatch struct {
	resources.Watch
	store    *interruptedStore
	resource string
}

func (w interruptedWatch) Next(ctx context.Context, max int) ([]*resources.Event, int64, error) {
	if w.resource == w.store.silent.Load() {
		select {
		case w.store.failed <- struct{}{}:
		default:
		}
		return nil, 0, fmt.Errorf("%w: of %s", resources.ErrUnavailable, w.resource)
	}
	if w.store.unavailable.Add(-1) >= 0 {
		return nil, 0, fmt.Errorf("%w: for this moment", resources.ErrUnavailable)
	}
	return w.Watch.Next(ctx, max)
}

// interrupt sets a function to call before the next commit.
func (s *interruptedStore) interrupt(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

// follow sets a function to call after the next commit, before anything is notified of it.
func (s *interruptedStore) follow(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.after = f
}

func (s *interruptedStore) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	s.mu.Lock()
	before, after := s.before, s.after
	s.before, s.after = nil, nil
	s.mu.Unlock()
	if before != nil {
		before()
	}
	if after != nil {
		defer after()
	}
	return s.Store.Commit(ctx, writes...)
}

// listen starts the server on a loopback address, where responses can stream.
func (a *api) listen() *httptest.Server {
	s := httptest.NewUnstartedServer(a)
	s.EnableHTTP2 = true
	s.StartTLS()
	a.Cleanup(s.Close)
	return s
}

// says are expected values of a JSON response by their path (github.com/tidwall/gjson). The value "-" stands for an absent one.
type says map[string]string

// exchange is a request and its response. In the path and the body, {name} stands for a value that was kept.
type exchange struct {
	shows  string // what is special about it, if the request does not show it
	do     string // method and path
	header says   // of the request
	body   string
	code   int
	says   says
	answer says // headers of the response
	keep   says // paths of the response by the name under which to keep their values
}

// Content types of requests.
var (
	asYAML           = says{"Content-Type": "application/yaml"}
	asJSONPatch      = says{"Content-Type": "application/json-patch+json"}
	asMergePatch     = says{"Content-Type": "application/merge-patch+json"}
	asStrategicPatch = says{"Content-Type": "application/strategic-merge-patch+json"}
	asApply          = says{"Content-Type": "application/apply-patch+yaml"}
)

// run sends the requests one after another and compares the responses.
func (a *api) run(exchanges ...exchange) {
	a.Helper()
	for _, e := range exchanges {
		w := a.send(e)
		a.check(e, w.Result())
	}
}

func (a *api) send(e exchange) *httptest.ResponseRecorder {
	method, path, _ := strings.Cut(a.fill(e.do), " ")
	r := httptest.NewRequest(method, path, strings.NewReader(a.fill(e.body))).WithContext(a.Context())
	if e.body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	r.Header.Set("User-Agent", "test/1")
	for name, value := range e.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w
}

var placeholder = regexp.MustCompile(`\{\w+\}`)

// fill replaces {name} by kept values.
func (a *api) fill(s string) string {
	return placeholder.ReplaceAllStringFunc(s, func(name string) string {
		if v, ok := a.kept[strings.Trim(name, "{}")]; ok {
			return v
		}
		return name
	})
}

func (a *api) check(e exchange, r *http.Response) {
	a.Helper()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		a.Fatal(err)
	}
	failed := false
	wrong := func(what, got, want string) {
		a.Helper()
		failed = true
		a.Errorf("%s %s\n%s is %s\nwant %s", e.do, e.shows, what, got, want)
	}
	if r.StatusCode != e.code {
		wrong("the code", r.Status, http.StatusText(e.code))
	}
	for name, want := range e.answer {
		if got := strings.Join(r.Header.Values(name), " | "); got != a.fill(want) && (want != "-" || got != "") {
			wrong(name, got, want)
		}
	}
	for path, want := range e.says {
		got := gjson.GetBytes(body, path)
		if want == "-" && !got.Exists() {
			continue
		}
		if got.String() != a.fill(want) {
			wrong(path, got.String(), a.fill(want))
		}
	}
	for name, path := range e.keep {
		if a.kept[name] = gjson.GetBytes(body, path).String(); a.kept[name] == "" {
			wrong(path, "missing", "something to keep")
		}
	}
	if failed {
		a.Fatalf("the answer: %.2000s", body)
	}
}
