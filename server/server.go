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
	"github.com/rowlock/rowlock/resources/behind"
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

// Config configures a server.
type Config struct {
	Registry *resources.Registry
	// Store is for reads and watches. Writes go through Pipeline, whose admission New sets.
	Store    resources.View
	Pipeline *resources.Pipeline
	// Aggregator forwards requests for versions of other servers. Nil: none are forwarded.
	Aggregator *aggregate.Aggregator
	// Definitions updates Registry with types that CustomResourceDefinitions define. Nil: there are none.
	Definitions handlers.Definitions
	// Checks belong to /healthz and /readyz, besides ping.
	Checks []health.Check
	// KeyChecks belong to the same paths, and tell whether the keys for encryption at rest are available.
	KeyChecks []health.Check
	// Authenticator returns the user of a request; see authn.New.
	Authenticator func(*http.Request) (user.Info, bool, error)
	// Authorizer serves the expressions of admission policies. Nil: it allows everything.
	Authorizer authorizer.UnconditionalAuthorizer
	// Audit records requests. The Pipeline, which records the server's own writes, must have the same Auditor. Nil: nothing is recorded.
	Audit *auditing.Auditor
	// AllowsAnonymous tells whether clients without credentials may request a path at all, as system:anonymous. The Pipeline authorizes them. Nil:
	// they may not.
	AllowsAnonymous func(path string) bool
	// Entrance accepts the connections. Nil: the server makes one from TLS and HTTP.
	Entrance *Entrance
	// TLS configures connections when there is no Entrance. Nil serves plain HTTP, for tests only.
	TLS    *tls.Config
	Logger *slog.Logger
	// Metrics is the registry of /metrics; the server adds its own metrics.
	Metrics *prometheus.Registry
	// MetricLimits hides metrics and values of labels.
	MetricLimits MetricLimits
	// IssuedTokens are given to users at TokensPath. Nil: there is no such path.
	IssuedTokens *authn.IssuedTokens
	// ExternalHost is the name by which clients reach the server, for /api; it may have a port. Empty: /api has the address that the client has used.
	ExternalHost string
	// ServiceRange is the range of the Service kubernetes, which /api shows to clients with an address in the range. Nil: it does not.
	ServiceRange *net.IPNet
	// OpenID has the documents for verifiers of tokens. Nil: they are not served.
	OpenID OpenID
	// Features are kube-apiserver's feature gates, under its names (k8s.io/apiserver/pkg/features). Nil: its defaults.
	Features featuregate.FeatureGate
	// EnableAdmissionPlugins and DisableAdmissionPlugins switch on plugins besides the default ones, and switch off plugins (kube-apiserver's flags
	// of these names).
	EnableAdmissionPlugins, DisableAdmissionPlugins []string
	// AdmissionConfiguration configures the plugins. Nil: their defaults.
	AdmissionConfiguration apiadmission.ConfigProvider
	// Remote are headers to remove from requests, besides X-Remote-User and its companions.
	Remote RemoteHeaders
	// ServiceRouting says where a webhook behind a Service is called.
	ServiceRouting behind.Routing
	// DefragmentHeap lets the store compact its memory when the server is idle. With forget it drops the history for watches that lag behind. It
	// calls moved with the number of bytes moved, and stops when moved returns false. Nil: the store cannot do so.
	DefragmentHeap func(forget bool, moved func(bytes int) bool)
	// Rest drops what can be rebuilt, when the server is idle, and reports whether there was anything. Nil: there is nothing.
	Rest func() bool
	// MaxInFlight and MaxMutatingInFlight bound the requests in flight, except watches and requests of administrators. Priority and fairness shares
	// out their sum; without it they bound reads and writes, and further requests get 429. Default 400 and 200, as kube-apiserver's; less than 0:
	// no seats for priority and fairness, and without it no bound.
	MaxInFlight, MaxMutatingInFlight int
	// Unfair disables priority and fairness.
	Unfair bool
	// HistoryAge is how long the store keeps changes: a continue token stays valid that long. 0: as long as the store can.
	HistoryAge time.Duration
	// Now is the clock for the age of lists. Default time.Now.
	Now func() time.Time
	// RequestTimeout bounds every request that is not a watch. Default 60 seconds.
	RequestTimeout time.Duration
	// WatchStall is how long a watch lives while its client takes none of its frames. Default 10 minutes.
	WatchStall time.Duration
	// HTTP are settings of all responses and all connections.
	HTTP
	// Flags are the flags of the process, for /flagz, without secrets. Nil: there is no such page.
	Flags map[string]string
	// DrainTimeout bounds how long a shutdown waits for requests in flight. Default: RequestTimeout, as for kube-apiserver, and at least 30 seconds.
	DrainTimeout time.Duration
	// Left is closed when a stopping server is no longer an endpoint of the Service kubernetes. It accepts connections until then. Nil: the Service
	// has no other endpoint, to which clients could turn.
	Left <-chan struct{}
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
	admissions    *admissionTimes
	client        kubernetes.Interface // the server's own
	services      services             // of webhooks
	flows         *flows               // nil: without priority and fairness
	flowFilter    http.Handler         // queues or rejects requests
	underWay      atomic.Int64         // requests in flight, long-running ones excepted
	started       time.Time
	trimmer       *trimmer
	finished      []string // finished post-start hooks; not written after Serve has begun
	// impersonations has the mode of each user's last impersonation.
	impersonations *lru.Cache
	remotes        []remoteClaims // headers to remove from requests of clients
	stopping       chan struct{}  // closed when shutdown begins
	draining       chan struct{}  // closed when new requests are no longer wanted
	ended          chan struct{}  // closed by end, when writes are over
	end            func()
}

// New returns a server. It fails when the metrics cannot be registered, and when an admission plugin rejects its configuration.
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
	s.discovery = discovery.New(c.Registry, discovery.Options{ServerAddress: s.localAddress, ServiceRange: c.ServiceRange, Offer: offer, External: s.external, Local: s.local})
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
	// kube-apiserver's hooks fill informers and count objects: the store has done so. OpenAPI documents are built on demand.
	s.Finish(Hooks...)
	s.Finish(flowHooks(c.Unfair)...)
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
		if s.Entrance, err = NewEntrance(EntranceConfig{TLS: c.TLS, HTTP: c.HTTP, Logger: c.Logger, Features: c.Features, Unfair: c.Unfair}); err != nil {
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
	if s.access, err = newAccessMetrics(s.Metrics, impersonation, s.Unfair); err != nil {
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
		c.DrainTimeout = max(30*time.Second, c.RequestTimeout)
	}
}

// localAddress returns the address at which the client of a request reaches the server.
func (s *Server) localAddress(r *http.Request) string {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	if _, port, err := net.SplitHostPort(addr.String()); err == nil && s.ExternalHost != "" {
		return ExternalAddress(s.ExternalHost, port)
	}
	return addr.String()
}

// ExternalAddress returns the address of an external host, which may have a port of its own, as in kube-apiserver.
func ExternalAddress(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(host, port)
}

// Handler returns the whole server as a handler, for tests with their own listener. They must call Close.
func (s *Server) Handler() http.Handler { return s.echo }

// Close ends the goroutines that writes have started (workers of admission plugins). Call it last: after Serve, and after all other writes through
// the Pipeline.
func (s *Server) Close() { s.end() }

// Admit makes the Entrance pass requests to the server, as Serve does, which must follow. It is for callers that announce the server first.
func (s *Server) Admit() { s.Entrance.admit(s.echo) }

// Serve answers requests until ctx ends. After ShutdownDelay, and when it has left the endpoints, it drains: it accepts nothing new, ends watches cleanly, closes streams to kubelets and pods, and
// finishes the other requests in flight, for at most DrainTimeout. It closes the listener, which is nil if the Entrance is already open.
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
