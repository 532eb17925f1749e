package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// parts are the parts of a server, in the order in which they depend on each other.
type parts struct {
	options *serveOptions
	logger  *slog.Logger
	metrics *prometheus.Registry

	store        *sqlstore.Store
	entrance     *entrance
	auditor      *auditing.Auditor
	authorizers  *authz.Authorizers
	pipeline     *resources.Pipeline
	certificates *pki.PKI
	identity     *identity
	registry     *resources.Registry
	definitions  *custom.Definitions
	aggregator   *aggregate.Aggregator
	server       *server.Server
	left         chan struct{} // closed when a stopping server is no longer an endpoint; nil: there are no other servers
}

// assemble creates all parts on a store. The caller has to close the server, then the audit, and then the store. Background work of
// the parts ends with serving.
func (o *serveOptions) assemble(ctx, serving context.Context, store *sqlstore.Store, in *entrance, metrics *prometheus.Registry) (_ *parts, err error) {
	logger := in.logger
	p := &parts{options: o, logger: logger, metrics: metrics, store: store, entrance: in}
	if store.Shared() {
		p.left = make(chan struct{})
	}
	if p.auditor, err = o.audit.open(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.auditor.Close()
		}
	}()
	if p.authorizers, err = o.authorization.authorizers(store, logger); err != nil {
		return nil, err
	}
	way := resources.PipelineOptions{Authorizer: p.authorizers}
	if p.auditor != nil {
		way.Audit = p.auditor
	}
	p.pipeline = resources.NewPipeline(store, way)
	if p.certificates, err = o.openPKI(ctx, store, logger); err != nil {
		return nil, err
	}
	in.secureBy(p.certificates)
	if err = store.Await(ctx, func() (err error) {
		p.identity, err = o.newIdentity(serving, logger, store, resources.NewRows(store), p.certificates)
		return err
	}); err != nil {
		return nil, err
	}
	if err := p.metrics.Register(p.identity.authenticator); err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	if err := p.define(ctx); err != nil {
		return nil, err
	}
	p.aggregator = p.newAggregator()
	if p.server, err = p.newServer(); err != nil {
		return nil, err
	}
	return p, nil
}

// define registers the built-in types, and creates the part that adds custom resources.
func (p *parts) define(ctx context.Context) error {
	o := p.options
	upstream.SetCapabilities(o.allowPrivileged, o.connectionRate)
	kubelets, err := o.kubelets.kubelets()
	if err != nil {
		return err
	}
	if err := p.metrics.Register(builtin.ServiceMetrics{Reader: p.store, Network: o.services.ServiceNetwork}); err != nil {
		return err
	}
	p.registry = resources.NewRegistry()
	groups := builtin.Parts{Reader: p.store, Registry: p.registry, Authenticator: p.identity.authenticator, Audiences: o.tokens.audiences, Tokens: o.tokens.issued(p.identity.keys),
		Authorizer: p.authorizers, Rules: p.authorizers.Rules(), Services: o.services.ServiceNetwork, APIs: o.apis, Kubelets: kubelets, EventTTL: &o.storage.eventTTL}.Groups()
	groups = append(groups, o.history.groups(p.store, p.authorizers)...)
	p.definitions = custom.New(custom.Config{Registry: p.registry, Store: p.store, Scheme: builtin.Scheme, Logger: p.logger,
		ServiceRouting: o.routing}, groups)
	p.registry.SetGroups(groups)
	if err := p.store.Await(ctx, func() error { return p.definitions.Latest(ctx) }); err != nil {
		return fmt.Errorf("read the custom resource definitions: %w", err)
	}
	return nil
}

// newAggregator returns the part that forwards requests to extension API servers.
func (p *parts) newAggregator() *aggregate.Aggregator {
	return aggregate.New(aggregate.Config{Registry: p.registry, Store: p.store, Logger: p.logger, Certificate: p.certificates.ProxyCertificate,
		ServiceRouting: p.options.routing, PassRedirects: !p.options.rejectRedirects, UID: utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID)})
}

func (p *parts) newServer() (*server.Server, error) {
	o := p.options
	reading, writing := o.flow.inFlight()
	srv, err := server.New(server.Config{
		Registry:        p.registry,
		Definitions:     p.definitions,
		Store:           p.store,
		Pipeline:        p.pipeline,
		Aggregator:      p.aggregator,
		Audit:           p.auditor,
		Checks:          []health.Check{health.Limited("etcd", p.store.Ready, clock.RealClock{}, p.logger)}, // see docs/operations.md
		KeyChecks:       p.entrance.keys,
		Authenticator:   p.identity.authenticator.User,
		AllowsAnonymous: o.authentication.allowsAnonymous(p.identity.remote.Anonymous, o.authorization.allowsAnonymous()),
		Authorizer:      p.authorizers,
		Remote:          server.RemoteHeaders{Users: o.proxies.usernames, UIDs: o.proxies.uids, Groups: o.proxies.groups, Extras: o.proxies.extraPrefixes},
		Entrance:        p.entrance.Entrance,
		IssuedTokens:    p.identity.issued,
		ExternalHost:    o.services.external,
		ServiceRange:    &o.services.Ranges[0],

		Logger:  p.logger,
		Metrics: p.metrics, MetricLimits: o.metrics.limits(),
		OpenID: o.tokens.openID(p.identity.keys, o.services.external, p.logger),
		DefragmentHeap: func(forget bool, moved func(int) bool) {
			p.store.DefragmentHeap(forget, moved)
			p.definitions.Cool()
		},
		Rest:       p.definitions.Rest,
		Features:   utilfeature.DefaultFeatureGate,
		Flags:      o.flags,
		HistoryAge: o.storage.historyAge,

		EnableAdmissionPlugins:  o.admission.enabled(),
		DisableAdmissionPlugins: o.admission.disabled(),
		AdmissionConfiguration:  o.admission.configuration,
		ServiceRouting:          o.routing,
		MaxInFlight:             reading,
		MaxMutatingInFlight:     writing,
		Unfair:                  !o.flow.fair,
		RequestTimeout:          o.http.requestTimeout,
		HTTP:                    o.http.server(&o.log),
		Left:                    p.left,
	})
	if err != nil {
		return nil, err
	}
	srv.Finish(o.proxies.hooks()...)
	srv.Finish(o.encryption.hooks()...)
	p.identity.secrets.Server = srv
	return srv, nil
}

// elect returns the election of the server whose controllers run, among those on the database; nil: there is only one.
func (p *parts) elect() func(context.Context, func(context.Context)) error {
	if !p.store.Shared() {
		return nil
	}
	hostname, _ := os.Hostname() // the identity does not need a host name
	e := controllers.Election{Registry: p.registry, Store: p.store, Pipeline: p.pipeline, Logger: p.logger}
	if session := p.store.Session(); session != nil {
		e.Identity, e.Lock = hostname+"_"+session.Self(), session.Elect
	} else {
		e.Identity = hostname + "_" + string(uuid.NewUUID())
	}
	return e.Elect
}

// follow runs, until ctx ends, the background work that handling requests depends on.
func (p *parts) follow(ctx context.Context, work *errgroup.Group) {
	runs := []func(context.Context){p.certificates.Run, p.definitions.Run, p.identity.remote.Run, p.authorizers.Run, p.aggregator.Run}
	if path := p.options.http.debugSocket; path != "" {
		runs = append(runs, func(ctx context.Context) {
			if err := p.server.ServeDebugSocket(ctx, path); err != nil {
				p.logger.Error(err.Error()) // the server can do without it
			}
		})
	}
	for _, run := range runs {
		work.Go(func() error { run(ctx); return nil })
	}
}

// leave reports that this server is no longer an endpoint.
func (p *parts) leave() {
	if p.left != nil {
		close(p.left)
	}
}

// control runs the controllers until ctx ends.
func (p *parts) control(ctx context.Context) error {
	return controllers.Run(ctx, p.options.controllers.config(controllers.Config{Registry: p.registry, Store: p.store, Pipeline: p.pipeline, Logger: p.logger,
		Prober: p.aggregator, Unavailable: p.aggregator.CountUnavailable, Elsewhere: p.aggregator, Elect: p.elect()}, p.server, p.certificates, p.identity.keys))
}
