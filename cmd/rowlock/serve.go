package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/aggregate"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

func newServeCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the Kubernetes API",
		Long: "Serves the Kubernetes API from a SQL database, until it is told to stop (SIGINT, SIGTERM). When it is ready it\n" +
			"prints the line that points kubectl at it. On first start it makes its own certificates and the\n" +
			"administrator's kubeconfig.\n\n" +
			"Each flag may also be given as an environment variable: ROWLOCK_DATA_DIR stands for --data-dir.",
		Example: "  rowlock serve\n" +
			"  rowlock serve --datastore 'postgres://rowlock@db.example.com/rowlock?sslmode=verify-full'\n" +
			"  rowlock serve --listen 0.0.0.0:6443 --tls-san api.example.com\n" +
			"  ROWLOCK_LOG_LEVEL=info rowlock serve --data-dir ./data --listen 127.0.0.1:0",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(); err != nil {
				return err
			}
			o.flags = shownFlags(cmd.Flags())
			return serve(cmd.Context(), o, o.log.logger(cmd.ErrOrStderr()), cmd.OutOrStdout())
		},
	}
	addSections(cmd, o.sections())
	return cmd
}

// serve runs a server until ctx ends and everything it began is finished. It prints one line on stdout when it is ready.
func serve(ctx context.Context, o *serveOptions, logger *slog.Logger, stdout io.Writer) (err error) {
	metrics := prometheus.NewRegistry()
	// The store comes first: it refuses to share a database with another process, whose certificates, in the same data
	// directory, have then not been touched either.
	store, err := o.openStore(ctx, logger, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	authorizers, err := o.authorization.authorizers(store, logger)
	if err != nil {
		return err
	}
	pipeline := resources.NewPipeline(store, resources.PipelineOptions{Authorizer: authorizers})
	certificates, err := o.openPKI(ctx, store, logger)
	if err != nil {
		return err
	}
	identity, err := o.newIdentity(ctx, logger, store, certificates)
	if err != nil {
		return err
	}
	registry, definitions, err := o.newRegistry(ctx, store, identity, authorizers, logger)
	if err != nil {
		return err
	}
	aggregator := o.newAggregator(registry, store, certificates, logger)
	srv, err := o.newServer(registry, definitions, store, pipeline, certificates, identity, authorizers, aggregator, logger, metrics)
	if err != nil {
		return err
	}
	defer srv.Close()
	plane := controlplane.New(controlplane.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: logger,
		Definitions:       definitions,
		ClientAuthorities: certificates, FrontProxy: o.proxies.frontProxy(certificates), Front: srv})
	if err := store.Await(ctx, func() error { return plane.Bootstrap(ctx) }); err != nil {
		return fmt.Errorf("create the objects that exist from the start: %w", err)
	}
	listener, err := net.Listen(listenNetwork(o.listen), o.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	defer listener.Close() // Serve closes it too; this is for the way out before
	aggregator.Loopback.Store(localAddress(listener.Addr()))
	network, err := o.bootstrapServices(ctx, plane, store, listener.Addr(), logger)
	if err != nil {
		return err
	}
	if err := certificates.WriteKubeconfig(localURL(listener.Addr())); err != nil {
		return err
	}
	logger.Info("serving", "address", listener.Addr().String(), "dataDir", o.dataDir, "version", ownVersion())
	defer logger.Info("stopped")

	ctx, stop := context.WithCancel(ctx)
	var work errgroup.Group
	work.Go(func() error {
		defer stop()
		return srv.Serve(ctx, listener)
	})
	for _, run := range []func(context.Context){certificates.Run, definitions.Run, identity.remote.Run, authorizers.Run, aggregator.Run} {
		work.Go(func() error { run(ctx); return nil })
	}
	work.Go(func() error { plane.Keep(ctx, network); return nil })
	work.Go(func() error {
		return controllers.Run(ctx, o.controllers.config(controllers.Config{Registry: registry, Store: store, Pipeline: pipeline, Logger: logger,
			Prober: aggregator, Unavailable: aggregator.CountUnavailable, Elsewhere: aggregator, Elect: elect(registry, store, pipeline, logger)}, srv, certificates, identity.keys))
	})
	fmt.Fprintf(stdout, "export KUBECONFIG=%s\n", shellQuoted(certificates.KubeconfigPath()))
	return work.Wait()
}

// newRegistry returns the types that are served, and what adds those that are defined.
func (o *serveOptions) newRegistry(ctx context.Context, store *sqlstore.Store, identity *identity, authorizers *authz.Authorizers,
	logger *slog.Logger) (*resources.Registry, *custom.Definitions, error) {
	upstream.AllowPrivileged(o.allowPrivileged)
	kubelets, err := o.kubelets.kubelets()
	if err != nil {
		return nil, nil, err
	}
	registry := resources.NewRegistry()
	groups := builtin.Parts{Reader: store, Authenticator: identity.authenticator, Audiences: o.tokens.audiences, Tokens: o.tokens.issued(identity.keys),
		Authorizer: authorizers, Rules: authorizers.Rules(), Services: o.services.ServiceNetwork, APIs: o.apis, Kubelets: kubelets}.Groups()
	definitions := custom.New(custom.Config{Registry: registry, Store: store, Scheme: builtin.Scheme, Logger: logger}, groups)
	registry.SetGroups(groups)
	if err := store.Await(ctx, func() error { return definitions.Latest(ctx) }); err != nil {
		return nil, nil, fmt.Errorf("read the custom resource definitions: %w", err)
	}
	return registry, definitions, nil
}

// bootstrapServices makes the Service of the API, which has the server's address.
func (o *serveOptions) bootstrapServices(ctx context.Context, plane *controlplane.Plane, store *sqlstore.Store, addr net.Addr, logger *slog.Logger) (controlplane.Network, error) {
	network := o.network(addr, logger)
	network.Members, network.Rows = members(store), resources.NewRows(store)
	if err := o.tokens.fill(network); err != nil {
		return network, err
	}
	if err := store.Await(ctx, func() error { return plane.BootstrapServices(ctx, network) }); err != nil {
		return network, fmt.Errorf("create the Service of the API: %w", err)
	}
	return network, nil
}

// memberTerm is how long a server that cannot be seen to live counts as an endpoint without saying so, as upstream.
const memberTerm = 15 * time.Second

// members are the servers on the database; nil: there are no others.
func members(store *sqlstore.Store) controlplane.Members {
	if session := store.Session(); session != nil {
		return session
	}
	if store.Shared() {
		return controlplane.Expiring(string(uuid.NewUUID()), memberTerm)
	}
	return nil
}

// elect says how one of several servers on the database becomes the one whose controllers work; nil: there is only one.
func elect(registry *resources.Registry, store *sqlstore.Store, pipeline *resources.Pipeline,
	logger *slog.Logger) func(context.Context, func(context.Context)) error {
	if !store.Shared() {
		return nil
	}
	hostname, _ := os.Hostname() // a machine without a name has an identity all the same
	e := controllers.Election{Registry: registry, Store: store, Pipeline: pipeline, Logger: logger}
	if session := store.Session(); session != nil {
		e.Identity, e.Lock = hostname+"_"+session.Self(), session.Elect
	} else {
		e.Identity = hostname + "_" + string(uuid.NewUUID())
	}
	return e.Elect
}

// newAggregator returns what passes on the requests that are for other servers.
func (o *serveOptions) newAggregator(registry *resources.Registry, store *sqlstore.Store, certificates *pki.PKI, logger *slog.Logger) *aggregate.Aggregator {
	return aggregate.New(aggregate.Config{Registry: registry, Store: store, Logger: logger, Certificate: certificates.ProxyCertificate,
		RouteToEndpoints: o.routeToEndpoints, PassRedirects: !o.rejectRedirects, UID: utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID)})
}

func (o *serveOptions) newServer(registry *resources.Registry, definitions *custom.Definitions, store *sqlstore.Store, pipeline *resources.Pipeline,
	certificates *pki.PKI, identity *identity, authorizers *authz.Authorizers, aggregator *aggregate.Aggregator,
	logger *slog.Logger, metrics *prometheus.Registry) (*server.Server, error) {
	srv, err := server.New(server.Config{
		Registry:      registry,
		Definitions:   definitions,
		Store:         store,
		Pipeline:      pipeline,
		Aggregator:    aggregator,
		Checks:        []health.Check{{Name: "etcd", Run: func(r *http.Request) error { return store.Ready(r.Context()) }}}, // see docs/operations.md
		Authenticator: identity.authenticator.User,
		Strangers:     o.authorization.strangers(),
		Authorizer:    authorizers,
		TLS:           certificates.TLSConfig(),

		Logger:  logger,
		Metrics: metrics,
		OpenID:  o.tokens.openID(identity.keys, logger),
		DefragmentHeap: func(forget bool, moved func(int) bool) {
			store.DefragmentHeap(forget, moved)
			definitions.Cool()
		},
		Rest:       definitions.Rest,
		Features:   utilfeature.DefaultFeatureGate,
		Flags:      o.flags,
		HistoryAge: o.storage.historyAge,

		EnableAdmissionPlugins:  o.admission.enable,
		DisableAdmissionPlugins: o.admission.disable,
		RouteToEndpoints:        o.routeToEndpoints,
		MaxInFlight:             o.maxInFlight,
		MaxMutatingInFlight:     o.maxMutatingInFlight,
		RequestTimeout:          o.requestTimeout,
	})
	identity.secrets.Server = srv
	return srv, err
}

func (o *serveOptions) openStore(ctx context.Context, logger *slog.Logger, metrics *prometheus.Registry) (*sqlstore.Store, error) {
	options := o.storage.store()
	options.Logger, options.Registerer, options.Packed = logger, metrics, []string{custom.Resource}
	return sqlstore.Open(ctx, options)
}

func (o *serveOptions) openPKI(ctx context.Context, store *sqlstore.Store, logger *slog.Logger) (p *pki.PKI, err error) {
	hostname, _ := os.Hostname() // a machine without a name is reached by its addresses
	options := pki.Options{
		DataDir: o.dataDir, Names: o.names(hostname), CertFile: o.certFile, KeyFile: o.keyFile,
		ClientCAFile: o.clientCAFile, Logger: logger,
		ProxyCertFile: o.proxies.certFile, ProxyKeyFile: o.proxies.keyFile, ProxyCAFile: o.proxies.caFile,
	}
	if store.Shared() {
		options.Shared = resources.NewRows(store)
	}
	err = store.Await(ctx, func() (err error) {
		p, err = pki.Open(options)
		return err
	})
	return p, err
}

// listenNetwork keeps to IPv4 for an address of IPv4: 0.0.0.0 would be every address of IPv6 as well, and be reported as that.
func listenNetwork(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); ip.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// localURL is how clients on this machine reach a listener.
func localURL(a net.Addr) string { return "https://" + *localAddress(a) }

func localAddress(a net.Addr) *string {
	address := a.String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return &address
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil {
			host = "::1"
		}
	}
	address = net.JoinHostPort(host, port)
	return &address
}

// shellQuoted writes a path so that a shell reads it as one word, without quotes where none are needed.
func shellQuoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
