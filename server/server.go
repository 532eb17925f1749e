package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/sets"
	apiadmission "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/lru"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/handlers"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/openapi"
)

// Config is what a server is made of.
type Config struct {
	Registry *resources.Registry
	// Store is read and watched; what is written goes through Pipeline, whose admission New sets.
	Store    resources.View
	Pipeline *resources.Pipeline
	// Aggregator passes on what is another server's to answer. Nil: nothing is.
	Aggregator *aggregate.Aggregator
	// Definitions brings Registry up to date with types that are defined by objects. Nil: there are none.
	Definitions handlers.Definitions
	// Checks are asked by /healthz and /readyz, besides ping.
	Checks []health.Check
	// KeyChecks are asked by the same, and tell whether the keys can be had by which objects are encrypted.
	KeyChecks []health.Check
	// Authenticator says who sent a request; see authn.New.
	Authenticator func(*http.Request) (user.Info, bool, error)
	// Authorizer is asked by the expressions of admission policies. Nil: everybody may do everything.
	Authorizer authorizer.UnconditionalAuthorizer
	// Audit records requests. The Pipeline records what the server writes of itself, and has to have the same. Nil: nothing is recorded.
	Audit *auditing.Auditor
	// AllowsAnonymous tells whether clients without credentials may ask for a path at all, as system:anonymous; what they may do
	// is the Pipeline's to say. Nil: they may not.
	AllowsAnonymous func(path string) bool
	// Entrance has the connections. Nil: the server makes one of TLS and HTTP.
	Entrance *Entrance
	// TLS is how connections are secured, where there is no Entrance. Nil serves plain HTTP, which only tests want.
	TLS    *tls.Config
	Logger *slog.Logger
	// Metrics is what /metrics shows; the server adds its own to it.
	Metrics *prometheus.Registry
	// MetricLimits say what of them is not to be seen.
	MetricLimits MetricLimits
	// IssuedTokens are given to users at TokensPath. Nil: none are.
	IssuedTokens *authn.IssuedTokens
	// ExternalHost is the name by which clients reach the server, for /api. Empty: they are told the address that they have used.
	ExternalHost string
	// OpenID is served to those who verify tokens. Nil: it is not.
	OpenID OpenID
	// Features are kube-apiserver's feature gates, under its names (k8s.io/apiserver/pkg/features). Nil: its defaults.
	Features featuregate.FeatureGate
	// EnableAdmissionPlugins and DisableAdmissionPlugins name plugins besides those that are on by default, and of those
	// (kube-apiserver's flags of these names).
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AdmissionConfiguration is that of the plugins. Nil: nobody configured any.
	AdmissionConfiguration apiadmission.ConfigProvider
	// Remote are taken from requests, besides X-Remote-User and those that go with it.
	Remote RemoteHeaders
	// RouteToEndpoints sends what is for the webhook behind a Service to one of its endpoints, and not to its ClusterIP.
	RouteToEndpoints bool
	// DefragmentHeap lets the store move what it keeps in memory together, for when the server has come to rest; with forget it
	// forgets what it keeps for watches that are behind. It calls moved with the bytes that it has moved, and ends when that
	// returns false. Nil when the store has no such thing.
	DefragmentHeap func(forget bool, moved func(bytes int) bool)
	// Rest drops what can be made again, for when the server has come to rest, and reports whether there was anything. Nil: there
	// is no such thing.
	Rest func() bool
	// MaxInFlight and MaxMutatingInFlight bound the requests under way, watches and those of administrators apart. Their sum is what
	// priority and fairness has to share out; without it they bound reads and writes, of which more are answered with 429. Default
	// 400 and 200, as kube-apiserver's; less than 0: none, and no bound.
	MaxInFlight, MaxMutatingInFlight int
	// Unfair turns priority and fairness off.
	Unfair bool
	// HistoryAge is how long the store keeps changes: clients may go on with a list as long as that. 0: as long as the store can.
	HistoryAge time.Duration
	// Now is the clock by which lists age. Default time.Now.
	Now func() time.Time
	// RequestTimeout bounds every request that is not a watch. Default 60 seconds.
	RequestTimeout time.Duration
	// WatchStall is how long a watch goes on whose client has taken none of its frames. Default 10 minutes.
	WatchStall time.Duration
	// HTTP is what all answers and all connections have in common.
	HTTP
	// Flags are those that the server was started with, for /flagz; what is secret has been taken out. Nil: there is no such page.
	Flags map[string]string
	// DrainTimeout bounds how long a shutdown waits for requests under way. Default 30 seconds.
	DrainTimeout time.Duration
}

// Server serves the Kubernetes API.
type Server struct {
	Config
	echo          *echo.Echo
	info          *genericapirequest.RequestInfoFactory
	offer         *codec.Offer
	handlers      *handlers.Handlers
	endedVersions endedVersions
	discovery     *discovery.Handler
	openapi       *openapi.Handler
	metrics       *metrics
	access        *accessMetrics
	commits       *commitTimes
	client        kubernetes.Interface // the server's own
	flows         *flows               // nil: without priority and fairness
	flowFilter    http.Handler         // has requests wait, or refuses them
	underWay      atomic.Int64         // requests that have not been answered, long-running ones apart
	started       time.Time
	trimmer       *trimmer
	finished      []string // what was done before Serve; not written to from then on
	// impersonations is in which mode a user was somebody else the last time.
	impersonations *lru.Cache
	remotes        []remoteClaims // what no client may send on
	stopping       chan struct{}  // closed when the server has been told to stop
	draining       chan struct{}  // closed when no new requests are wanted
	ended          chan struct{}  // closed when nothing is written any more; by end
	end            func()
}

// New returns a server. It fails when the metrics cannot be registered, and when a plugin of admission refuses its configuration.
func New(c Config) (*Server, error) {
	setDefaults(&c)
	offer := codec.NewOffer(c.Features.Enabled(features.CBORServingAndStorage))
	offer.PlainBodies = !c.Features.Enabled(features.APIResponseCompression)
	offer.PlainWatchLists = !c.Features.Enabled(features.WatchListCompression)
	s := &Server{Config: c, offer: offer, stopping: make(chan struct{}), draining: make(chan struct{}), ended: make(chan struct{}), impersonations: lru.New(10_000),
		started: time.Now(),
		info:    &genericapirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		openapi: openapi.New(c.Registry, offer.CBOR()), remotes: []remoteClaims{usualRemotes.claims(), c.Remote.claims()}}
	if c.Aggregator != nil {
		s.openapi.Join(c.Aggregator.OpenAPI)
	}
	s.discovery = discovery.New(c.Registry, discovery.Options{ServerAddress: s.localAddress, CBOR: offer.CBOR(), External: s.external, Local: s.local})
	s.end = sync.OnceFunc(func() { close(s.ended) })
	if err := s.newCounts(); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	plugins, err := s.newAdmission()
	if err != nil {
		return nil, err
	}
	c.Pipeline.Use(plugins, c.Registry)
	c.Pipeline.Count(s.access.authorized)
	c.Pipeline.CountCommits(s.commits.committed)
	upstream.CountImpersonations()
	s.handlers = handlers.New(handlers.Config{Registry: c.Registry, Store: c.Store, Definitions: c.Definitions, Pipeline: c.Pipeline, Logger: c.Logger, Offer: s.offer, Draining: s.draining,
		HistoryAge: c.HistoryAge, Now: c.Now, MinWatchTimeout: c.MinWatchTimeout, WatchStall: c.WatchStall, Audited: c.Audit != nil,
		Shards: c.Features.Enabled(features.ShardedListAndWatch), ManagedFieldsFallback: s.metrics.managedFieldsFallback})
	c.Registry.WhenEnded(s.forgetLater)
	if err := c.Metrics.Register(s.handlers); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	s.trimmer = newTrimmer(func() int { return int(s.underWay.Load()) }, s.handlers.Watches, c.DefragmentHeap, s.rest)
	// What others read into informers, and count, the store has read and counted; documents are made when they are asked for.
	s.Finish(Hooks...)
	if c.Definitions != nil {
		s.Finish(definitionHooks...)
		c.Definitions.ReachesItself(loopback{s, resources.APIServer.Info, "kube-apiserver", bounded.MostBytes})
	}
	if s.flows, err = s.newFlows(); err != nil {
		return nil, err
	}
	s.flowFilter = s.newFlowFilter()
	s.echo = s.newEcho()
	if s.Entrance == nil {
		if s.Entrance, err = NewEntrance(EntranceConfig{TLS: c.TLS, HTTP: c.HTTP, Logger: c.Logger, Features: c.Features}); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// newCounts registers the metrics of the server and of its parts.
func (s *Server) newCounts() (err error) {
	if s.metrics, err = newMetrics(s.Metrics, s.openapi.Built); err != nil {
		return err
	}
	impersonation := "impersonation"
	if s.Features.Enabled(features.ConstrainedImpersonation) {
		impersonation = "constrainedimpersonation"
	}
	if s.access, err = newAccessMetrics(s.Metrics, impersonation); err != nil {
		return err
	}
	if s.commits, err = newCommitTimes(s.Metrics); err != nil {
		return err
	}
	if err := s.Metrics.Register(storedObjects{s}); err != nil {
		return err
	}
	return registerParts(s.Config)
}

func setDefaults(c *Config) {
	if c.Metrics == nil {
		c.Metrics = prometheus.NewRegistry()
	}
	if c.Features == nil {
		c.Features = utilfeature.DefaultFeatureGate
	}
	if c.MaxInFlight == 0 {
		c.MaxInFlight = 400
	}
	if c.MaxMutatingInFlight == 0 {
		c.MaxMutatingInFlight = 200
	}
	if c.RequestTimeout == 0 {
		c.RequestTimeout = 60 * time.Second
	}
	if c.DrainTimeout == 0 {
		c.DrainTimeout = 30 * time.Second
	}
}

// localAddress is the address at which the client of a request reaches the server.
func (s *Server) localAddress(r *http.Request) string {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	if _, port, err := net.SplitHostPort(addr.String()); err == nil && s.ExternalHost != "" {
		return net.JoinHostPort(s.ExternalHost, port)
	}
	return addr.String()
}

// Handler returns the whole of the server as a handler, for tests that bring their own listener. They have to Close it.
func (s *Server) Handler() http.Handler { return s.echo }

// Close ends what writes have started (workers of admission plugins). It comes last: after Serve, and after all else that
// writes through the Pipeline.
func (s *Server) Close() { s.end() }

// Admit has the Entrance ask the server, as Serve does, which has to follow. It is for who tells clients of the server before.
func (s *Server) Admit() { s.Entrance.admit(s.echo) }

// Serve answers requests until ctx ends. It then drains: nothing new is accepted, watches end cleanly, what is connected to
// a kubelet or a pod ends, and the other requests under way are finished, for at most DrainTimeout. It closes the listener, which is nil
// where the Entrance was opened before.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	trimming, stopTrimming := context.WithCancel(ctx)
	defer stopTrimming()
	go s.trimmer.run(trimming)
	s.Admit()
	if l != nil {
		s.Entrance.Open(l)
	}
	served := s.Entrance.served
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	close(s.stopping)
	if err := s.delayShutdown(served); err != nil {
		return err
	}
	close(s.draining)
	s.handlers.Drained()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.DrainTimeout)
	defer cancel()
	if s.RetryAfter {
		s.finishRequests(drain)
	}
	err := s.Entrance.http.Shutdown(drain)
	if err != nil {
		s.Entrance.http.Close()
		err = fmt.Errorf("requests were still under way after %s: %w", s.DrainTimeout, err)
	}
	s.handlers.Drain(drain)
	if serr := <-served; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	return err
}
