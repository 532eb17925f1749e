package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/backup"
)

func newServeCommand() *cobra.Command {
	o := &serveOptions{}
	cmd := &cobra.Command{
		Use:   "serve [flags]",
		Short: "Serve the Kubernetes API",
		Long: "Serves the Kubernetes API from a SQL database until SIGINT, SIGTERM or SIGHUP. When the server is ready, it prints the line that\n" +
			"makes kubectl use it. The first start creates certificates and the administrator's kubeconfig.\n\n" +
			"Each flag can also be set by an environment variable (ROWLOCK_DATA_DIR for --data-dir), or in the file of --config.",
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
			return serve(cmd.Context(), o, o.log.logger(cmd.ErrOrStderr()), aside(cmd.OutOrStdout()))
		},
	}
	addSections(cmd, o.sections())
	return cmd
}

// serve runs a server until ctx ends and all its work is finished. It prints one line on stdout when it is ready.
func serve(ctx context.Context, o *serveOptions, logger *slog.Logger, stdout io.Writer) (err error) {
	if err := backup.CheckFinished(o.dataDir); err != nil {
		return err
	}
	if err := makeDataDir(o.dataDir); err != nil {
		return err
	}
	o.warn(logger)
	metrics := prometheus.NewRegistry()
	encryption, err := o.encryption.open(ctx)
	if err != nil {
		return err
	}
	defer encryption.close()
	in := &entrance{options: o, logger: logger, keys: encryption.checks}
	defer in.close()
	defer func() { err = in.stopped(ctx, damaged(err)) }()
	// The store is opened first: it refuses to share a database with another process, whose certificates in the same
	// data directory have then not been changed either.
	store, err := o.openStore(ctx, encryption, in, metrics)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	warnEmptied(logger, store, o.dataDir)
	// Authorizers, types and issuers are needed until the last request is answered, which may be long after ctx has ended
	// (--shutdown-delay-duration).
	serving, served := context.WithCancel(context.WithoutCancel(ctx))
	defer served()
	p, err := o.assemble(ctx, serving, store, in, metrics)
	if err != nil {
		return err
	}
	defer p.auditor.Close() // after the requests that it records
	defer p.server.Close()
	keepBackups, err := o.backups.keeper(o, store.Schema(), logger, metrics)
	if err != nil {
		return err
	}
	plane, err := p.bootstrap(ctx)
	if err != nil {
		return err
	}
	if err := in.open(ctx); err != nil {
		return err
	}
	address := in.listener.Addr()
	p.aggregator.Loopback.Store(localAddress(address))
	network, err := o.bootstrapServices(ctx, plane, store, address, logger)
	if err != nil {
		return err
	}
	if err := p.prepare(ctx, address); err != nil {
		return err
	}
	in.ready = true
	p.server.Admit() // before the server is reported as ready
	return p.run(ctx, serving, served, running{address, plane, network, keepBackups}, stdout)
}

// prepare does what the first request of a client that has waited for /readyz relies on. The wait gets only a moment longer.
func (p *parts) prepare(ctx context.Context, address net.Addr) error {
	// The client reads the kubeconfig next, which has the former port until it is written here.
	if err := p.certificates.WriteKubeconfig(localURL(address)); err != nil {
		return err
	}
	return p.store.Await(ctx, func() error { return p.aggregator.Prepare(ctx) })
}

// damaged adds to the error of an object that does not decode what it means and what to do.
func damaged(err error) error {
	if none := (*resources.DecodeError)(nil); errors.As(err, &none) {
		return fmt.Errorf("%w: the database is damaged; rowlock verify tells what of it is", err)
	}
	return err
}

// running has the parts of a server that exist once it has an address.
type running struct {
	address     net.Addr
	plane       *controlplane.Plane
	network     controlplane.Network
	keepBackups func(context.Context)
}

// run handles requests and does the background work of a server until ctx ends. Work with the context serving goes on until the last
// request is answered; then run calls served.
func (p *parts) run(ctx, serving context.Context, served func(), r running, stdout io.Writer) error {
	logger := p.logger
	logger.Info("serving", "address", r.address.String(), "dataDir", p.options.dataDir, "version", ownVersion())
	defer logger.Info("stopped")
	ctx, stop := context.WithCancel(ctx)
	var work errgroup.Group
	work.Go(func() error {
		defer served()
		defer stop()
		return p.server.Serve(ctx, nil)
	})
	p.follow(serving, &work)
	work.Go(func() error { r.keepBackups(ctx); return nil })
	work.Go(func() error { p.keepViews(ctx); return nil })
	work.Go(func() error {
		r.plane.Keep(ctx, r.network)
		p.leave()
		return nil
	})
	work.Go(func() error { return p.control(ctx) })
	fmt.Fprintf(stdout, "export KUBECONFIG=%s\n", shellQuoted(p.certificates.KubeconfigPath()))
	work.Go(func() error { attend(ctx, logger, p.certificates.KubeconfigPath()); return nil })
	return work.Wait()
}

// bootstrap creates the control plane, and the objects that exist from the start.
func (p *parts) bootstrap(ctx context.Context) (*controlplane.Plane, error) {
	plane := controlplane.New(controlplane.Config{Registry: p.registry, Store: p.store, Pipeline: p.pipeline, Logger: p.logger, Definitions: p.definitions,
		ClientAuthorities: p.certificates, FrontProxy: p.options.proxies.frontProxy(p.certificates), NoRBAC: !p.authorizers.AsksRBAC(), Front: p.server})
	if err := p.store.Await(ctx, func() error { return plane.Bootstrap(ctx) }); err != nil {
		var unread *resources.TransformError
		if errors.As(err, &unread) && !unread.Undecodable && p.options.encryption.file == "" {
			err = fmt.Errorf("%w: the database has objects that are encrypted, and no --encryption-provider-config says by which keys", err)
		}
		return nil, fmt.Errorf("create the objects that exist from the start: %w", err)
	}
	return plane, nil
}

// bootstrapServices creates the Service of the API, with the server's address.
func (o *serveOptions) bootstrapServices(ctx context.Context, plane *controlplane.Plane, store *sqlstore.Store, addr net.Addr, logger *slog.Logger) (controlplane.Network, error) {
	network := o.network(addr, logger)
	network.Members, network.Rows = members(store), resources.NewRows(store)
	if err := o.tokens.fill(network, o.services.external); err != nil {
		return network, err
	}
	if err := store.Await(ctx, func() error { return plane.BootstrapServices(ctx, network) }); err != nil {
		return network, fmt.Errorf("create the Service of the API: %w", err)
	}
	return network, nil
}

// memberTerm is how long a server without a database session stays an endpoint after its last renewal, as in upstream.
const memberTerm = 15 * time.Second

// members returns the servers on the database; nil: there are no others.
func members(store *sqlstore.Store) controlplane.Members {
	if session := store.Session(); session != nil {
		return session
	}
	if store.Shared() {
		return controlplane.Expiring(string(uuid.NewUUID()), memberTerm)
	}
	return nil
}

// openStore opens the store, which begins the entrance before its slow steps.
func (o *serveOptions) openStore(ctx context.Context, e encryption, in *entrance, metrics *prometheus.Registry) (*sqlstore.Store, error) {
	options := o.storage.store()
	options.Begin, options.Progress, options.AwaitMove = func() error { return in.begin(ctx) }, &in.progress, true
	options.Logger, options.Registerer, options.Packed = in.logger, metrics, []string{custom.Resource}
	options.Transformers, options.KeysMissing, options.ObjectHistory = e.transformers, e.missing, o.history.parsed
	return sqlstore.Open(ctx, options)
}

// pki returns the options of certificates that flags determine.
func (o *serveOptions) pki(logger *slog.Logger) (pki.Options, error) {
	hostname, _ := os.Hostname() // a machine without a name is reached by its addresses
	options := pki.Options{
		DataDir: o.dataDir, Names: o.names(hostname), CertFile: o.certFile, KeyFile: o.keyFile,
		ClientCAFile: o.clientCAFile, Logger: logger,
		ProxyCertFile: o.proxies.certFile, ProxyKeyFile: o.proxies.keyFile, ProxyCAFile: o.proxies.caFile,
	}
	return options, o.http.fillTLS(&options)
}

func (o *serveOptions) openPKI(ctx context.Context, store *sqlstore.Store, logger *slog.Logger) (p *pki.PKI, err error) {
	options, err := o.pki(logger)
	if err != nil {
		return nil, err
	}
	if rows := resources.NewRows(store); store.Shared() {
		options.Shared = rows
	} else {
		options.Left = rows
	}
	err = store.Await(ctx, func() (err error) {
		p, err = pki.Open(options)
		return err
	})
	return p, err
}

// listenNetwork selects IPv4 for an IPv4 address: 0.0.0.0 would also listen on every IPv6 address, and would be reported as such.
func listenNetwork(address string) string {
	host, _, _ := net.SplitHostPort(address)
	if ip := net.ParseIP(host); ip.To4() != nil {
		return "tcp4"
	}
	return "tcp"
}

// localURL is the URL by which clients on this machine reach a listener.
func localURL(a net.Addr) string { return "https://" + *localAddress(a) }

func localAddress(a net.Addr) *string { return localAddressOf(a, bindable) }

// localAddressOf uses has to check which hosts this machine has. A listener on [::] also accepts IPv4, and does so when IPv6 is disabled
// (sysctl disable_ipv6, as in most containers), so that there is no ::1.
func localAddressOf(a net.Addr, has func(host string) bool) *string {
	address := a.String()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return &address
	}
	if ip := net.ParseIP(host); ip.IsUnspecified() {
		host = "127.0.0.1"
		if ip.To4() == nil && has("::1") {
			host = "::1"
		}
	}
	address = net.JoinHostPort(host, port)
	return &address
}

// bindable reports whether this machine has an address.
func bindable(host string) bool {
	l, err := net.ListenPacket("udp", net.JoinHostPort(host, "0"))
	return err == nil && l.Close() == nil
}

// shellQuoted quotes a path so that a shell reads it as one word; it adds no quotes if none are needed.
func shellQuoted(path string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if strings.IndexFunc(path, func(r rune) bool { return !plain(r) }) < 0 {
		return path
	}
	return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
}
