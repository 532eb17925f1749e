package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/cork"
	"github.com/rowlock/rowlock/server/h2"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/status"
)

// EntranceConfig says how connections are had, and what is to be said while there is no Server.
type EntranceConfig struct {
	HTTP
	// TLS is how connections are secured. Nil serves plain HTTP, which only tests want.
	TLS    *tls.Config
	Logger *slog.Logger
	// Features as in Config.
	Features featuregate.FeatureGate
	// AllowsAnonymous as in Config.
	AllowsAnonymous func(path string) bool
	// Database and Objects say what is wrong as long as the database cannot be used, and as long as not all objects are in memory, in
	// words for everybody. Nil: nothing.
	Database, Objects func() error
	// Hooks are the parts of the start besides those of the server.
	Hooks []string
}

// Entrance is where connections come in. It answers from before there is a Server: it says how far the start is, and has all else wait for
// a moment, or come back. From Server.Admit on the server is asked, through the connections that are there as well.
type Entrance struct {
	EntranceConfig
	http   *http.Server
	served chan error // how it ended
	offer  *codec.Offer
	paths  map[string]http.Handler // of health

	server   atomic.Pointer[http.Handler]
	admitted chan struct{} // closed when there is a server, or none will be
	letIn    func()        // which closes it
	waiting  atomic.Int64
	patience time.Duration
}

const (
	// patience is how long a request waits for the server to be ready before it is told to come back: most starts are over by then.
	patience = time.Second
	// waitingMost is how many requests may wait.
	waitingMost = 1000
)

// NewEntrance fails when HTTP/2 cannot be spoken over such TLS.
func NewEntrance(c EntranceConfig) (*Entrance, error) {
	if c.Features == nil {
		c.Features = utilfeature.DefaultFeatureGate
	}
	fine := func() error { return nil }
	if c.Database == nil {
		c.Database = fine
	}
	if c.Objects == nil {
		c.Objects = fine
	}
	e := &Entrance{EntranceConfig: c, served: make(chan error, 1), offer: codec.NewOffer(c.Features.Enabled(features.CBORServingAndStorage)),
		paths: map[string]http.Handler{}, admitted: make(chan struct{}), patience: patience}
	e.letIn = sync.OnceFunc(func() { close(e.admitted) })
	for _, name := range healthPaths {
		// What is wrong is no news to the log, which says what is being done.
		e.paths["/"+name] = health.New(name, slog.New(slog.DiscardHandler), func() []health.Check { return e.checks(name) })
	}
	e.http = &http.Server{Handler: e, ConnContext: cork.Context, TLSConfig: c.TLS, ReadHeaderTimeout: 32 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 1 << 20, ErrorLog: log.New(newConnectionLog(c.Logger), "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: c.MaxStreams}}
	if c.TLS != nil && c.WithoutHTTP2 {
		e.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // which takes it off the list of protocols
	} else if c.TLS != nil {
		if err := cork.ConfigureHTTP2(e.http); err != nil {
			return nil, fmt.Errorf("HTTP/2: %w", err)
		}
		e.http.TLSNextProto["h2"] = http2Server(e.http)
	}
	return e, nil
}

// http2Server returns what answers HTTP/2 on new connections: our own server, or golang.org/x/net/http2's, which is there.
func http2Server(s *http.Server) func(*http.Server, *tls.Conn, http.Handler) {
	plain, fast := s.TLSNextProto["h2"], h2.Serve(s)
	return func(s *http.Server, c *tls.Conn, h http.Handler) {
		if fastpath.HTTP2.On() {
			fast(s, c, h)
			return
		}
		plain(s, c, h)
	}
}

// Open lets connections of a listener in, and returns at once. Close closes the listener, and so does the end of Server.Serve.
func (e *Entrance) Open(l net.Listener) {
	l = cork.Listener(l)
	go func() {
		if e.TLS == nil {
			e.served <- e.http.Serve(l)
		} else {
			e.served <- e.http.ServeTLS(l, "", "")
		}
	}()
}

// closeTimeout is how long Close waits for the answers under way.
const closeTimeout = time.Second

// Close ends an entrance whose server was never served: who waits is sent away. After Server.Serve it has nothing to do.
func (e *Entrance) Close() {
	e.letIn()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if e.http.Shutdown(ctx) != nil {
		_ = e.http.Close() // nothing that was acknowledged is lost with a connection
	}
}

// admit has a handler asked from now on.
func (e *Entrance) admit(server http.Handler) {
	e.server.Store(&server)
	e.letIn()
}

// ServeHTTP implements http.Handler.
func (e *Entrance) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if server := e.server.Load(); server != nil {
		(*server).ServeHTTP(w, r)
		return
	}
	e.serveStart(w, r)
}

// serveStart answers while there is no server. Who asks cannot be found out before there is a store. So the paths that are for everybody
// are answered, where those without credentials are let in; the others have to wait, with credentials of whatever kind.
func (e *Entrance) serveStart(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noCache
	known := r.Header.Get("Authorization") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if !known && r.TLS != nil {
		// Whose certificates are accepted may not be known yet, and clients do not show others: they are to be asked again. Besides, it is what
		// Server.closeConnection does.
		w.Header().Set("Connection", "close")
	}
	if h := e.paths[r.URL.Path]; h != nil {
		switch {
		case e.AllowsAnonymous != nil && e.AllowsAnonymous(r.URL.Path):
			h.ServeHTTP(w, r)
			return
		case !known:
			e.refuse(w, r, status.Unauthorized())
			return
		}
	}
	e.await(r.Context())
	if server := e.server.Load(); server != nil && (known || r.TLS == nil) { // others ask again, by a connection that may show who they are
		(*server).ServeHTTP(w, r)
		return
	}
	e.refuse(w, r, errNotReady)
}

// errNotReady is what kube-apiserver answers while it does not have all its paths.
var errNotReady = func() error {
	err := apierrors.NewServiceUnavailable("the request has been made before all known HTTP paths have been installed, please try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 5}
	return err
}()

func (e *Entrance) refuse(w http.ResponseWriter, r *http.Request, err error) {
	sendStatus(w, r, e.offer, status.Of(err), e.offer.NegotiateStatus(r))
}

// await waits for a server, for as long as a request may.
func (e *Entrance) await(ctx context.Context) {
	defer e.waiting.Add(-1)
	if e.waiting.Add(1) > waitingMost {
		return
	}
	late := time.NewTimer(e.patience)
	defer late.Stop()
	select {
	case <-e.admitted:
	case <-late.C:
	case <-ctx.Done():
	}
}

// errNotDone is of a part of the start that is yet to come.
var errNotDone = errors.New("not finished")

// checks are those of Server.healthChecks while there is no server: the same names.
func (e *Entrance) checks(path string) []health.Check {
	told := func(name string, err func() error) health.Check {
		return health.Check{Name: name, Told: true, Run: func(*http.Request) error { return err() }}
	}
	toCome := func(name string) health.Check {
		return health.Check{Name: name, Run: func(*http.Request) error { return errNotDone }}
	}
	checks := append([]health.Check{health.Ping}, storeChecks(path, told("etcd", e.Database))...)
	checks = append(checks, toCome("autoregister-completion"), health.Finished("log"))
	if path == "readyz" {
		checks = append(checks, told("informer-sync", e.Objects))
	}
	for _, name := range slices.Concat(Hooks, definitionHooks, e.Hooks) {
		checks = append(checks, toCome("poststarthook/"+name))
	}
	if path == "readyz" {
		checks = append(checks, health.Finished("shutdown"))
	}
	return checks
}
