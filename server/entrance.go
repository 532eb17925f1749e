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

// EntranceConfig configures the connections, and the responses while there is no Server.
type EntranceConfig struct {
	HTTP
	// TLS is how connections are secured. Nil serves plain HTTP, for tests only.
	TLS    *tls.Config
	Logger *slog.Logger
	// Features as in Config.
	Features featuregate.FeatureGate
	// AllowsAnonymous as in Config.
	AllowsAnonymous func(path string) bool
	// Database and Objects return the error to report as long as the database is unusable, and as long as not all objects are in memory. Anybody
	// may read their text. Nil: no error.
	Database, Objects func() error
	// KeyChecks as in Config.
	KeyChecks []health.Check
	// Hooks are the post-start hooks besides those of the server.
	Hooks []string
	// Unfair as in Config.
	Unfair bool
}

// Entrance accepts connections, from before there is a Server. Until then it reports the progress of the start, and has all other requests wait for
// a moment or retry. From Server.Admit on it passes requests to the server, those of open connections included.
type Entrance struct {
	EntranceConfig
	http   *http.Server
	served chan error // the error with which serving ended
	offer  *codec.Offer
	paths  map[string]http.Handler // the health paths

	server   atomic.Pointer[http.Handler]
	admitted chan struct{} // closed when there is a server, or none will come
	letIn    func()        // closes admitted
	waiting  atomic.Int64
	patience time.Duration
}

const (
	// patience is how long a request waits for the server before the client is told to retry: most starts take less.
	patience = time.Second
	// waitingMost bounds the number of waiting requests.
	waitingMost = 1000
)

// NewEntrance fails when the TLS configuration does not allow HTTP/2.
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
		// Failing checks are not logged: the log already tells the progress of the start.
		e.paths["/"+name] = newHealth(name, slog.New(slog.DiscardHandler), e.checks)
	}
	e.http = &http.Server{Handler: e, ConnContext: cork.Context, TLSConfig: c.TLS, ReadHeaderTimeout: 32 * time.Second, IdleTimeout: 90 * time.Second,
		MaxHeaderBytes: 1 << 20, ErrorLog: log.New(newConnectionLog(c.Logger), "", 0),
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: c.MaxStreams}}
	if c.TLS != nil && c.WithoutHTTP2 {
		e.http.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){} // removes h2 from ALPN
	} else if c.TLS != nil {
		if err := cork.ConfigureHTTP2(e.http); err != nil {
			return nil, fmt.Errorf("HTTP/2: %w", err)
		}
		e.http.TLSNextProto["h2"] = http2Server(e.http)
	}
	return e, nil
}

// http2Server returns the handler of new HTTP/2 connections: our own server, or golang.org/x/net/http2's while the fast path is off.
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

// Open accepts connections of a listener in the background. Close and the end of Server.Serve close the listener.
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

// closeTimeout is how long Close waits for requests in flight.
const closeTimeout = time.Second

// Close ends an entrance whose server was never served, and refuses the waiting requests. After Server.Serve it does nothing.
func (e *Entrance) Close() {
	e.letIn()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if e.http.Shutdown(ctx) != nil {
		_ = e.http.Close() // no acknowledged write is lost with a connection
	}
}

// admit passes all requests to a handler from now on.
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

// serveStart answers while there is no server. Authentication needs the store. So only the health paths are answered, if anonymous clients may read
// them; if not, requests without credentials get a 401. All other requests wait, whatever their credentials.
func (e *Entrance) serveStart(w http.ResponseWriter, r *http.Request) {
	w.Header()["Cache-Control"] = noCache
	known := r.Header.Get("Authorization") != "" || r.TLS != nil && len(r.TLS.PeerCertificates) > 0
	if !known && r.TLS != nil {
		// The CA of the client's certificate may not have been among those named in the handshake yet, and clients present no other certificates:
		// the handshake of the next connection will name it. Besides, Server.closeConnection does the same.
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
	if server := e.server.Load(); server != nil && (known || r.TLS == nil) { // others retry over a connection whose handshake names all CAs
		(*server).ServeHTTP(w, r)
		return
	}
	e.refuse(w, r, errNotReady)
}

// errNotReady is kube-apiserver's answer until all its paths are installed.
var errNotReady = func() error {
	err := apierrors.NewServiceUnavailable("the request has been made before all known HTTP paths have been installed, please try again")
	err.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 5}
	return err
}()

func (e *Entrance) refuse(w http.ResponseWriter, r *http.Request, err error) {
	sendStatus(w, r, e.offer, status.Of(err), e.offer.NegotiateStatus(r))
}

// await waits for a server, at most as long as patience allows.
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

// errNotDone is the error of a part of the start that is not finished.
var errNotDone = errors.New("not finished")

// checks returns checks of the same names as Server.healthChecks, while there is no server.
func (e *Entrance) checks(path string) []health.Check {
	told := func(name string, err func() error) health.Check {
		return health.Check{Name: name, Told: true, Run: func(*http.Request) error { return err() }}
	}
	toCome := func(name string) health.Check {
		return health.Check{Name: name, Run: func(*http.Request) error { return errNotDone }}
	}
	checks := append([]health.Check{health.Ping}, storeChecks(path, told("etcd", e.Database))...)
	if path != "livez" {
		checks = append(checks, e.KeyChecks...)
	}
	checks = append(checks, toCome("autoregister-completion"), health.Finished("log"))
	if path == "readyz" {
		checks = append(checks, told("informer-sync", e.Objects))
	} else {
		checks = append(checks, loopbackCertificate)
	}
	for _, name := range slices.Concat(Hooks, flowHooks(e.Unfair), definitionHooks, e.Hooks) {
		checks = append(checks, toCome("poststarthook/"+name))
	}
	if path == "readyz" {
		checks = append(checks, health.Finished("shutdown"))
	}
	return checks
}
