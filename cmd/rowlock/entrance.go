package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/health"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// entrance is the listener of a server. It answers while objects are read, and while the server waits for a database.
type entrance struct {
	*server.Entrance
	options  *serveOptions
	logger   *slog.Logger
	keys     []health.Check // health checks of KMS plugins
	progress sqlstore.Progress
	secured  atomic.Pointer[tls.Config] // the certificates in use
	listener net.Listener
	ready    bool // the start is over
}

// begin is called when no other process has the database. Where several servers share a port, it does not listen yet:
// another server answers until this one is ready.
func (e *entrance) begin(ctx context.Context) error {
	o := e.options
	options, err := o.pki(e.logger)
	if err != nil {
		return err
	}
	certificates, err := pki.Provisional(options)
	if err != nil {
		return err
	}
	config := certificates.TLSConfig()
	e.secureBy(certificates)
	config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		return e.secured.Load().GetConfigForClient(hello)
	}
	remote := o.authentication.RemoteOptions
	remote.Issuers = o.tokens.issuers
	if e.Entrance, err = server.NewEntrance(server.EntranceConfig{HTTP: o.http.server(&o.log), TLS: config, Logger: e.logger, Features: utilfeature.DefaultFeatureGate,
		AllowsAnonymous: o.authentication.allowsAnonymous(remote.Anonymous(), o.authorization.allowsAnonymous()),
		Database:        e.progress.Database, Objects: e.progress.Objects, KeyChecks: e.keys, Unfair: !o.flow.fair,
		Hooks: slices.Concat(controlplane.Hooks(o.authorization.mayAskRBAC()), o.proxies.hooks(), o.encryption.hooks())}); err != nil {
		return err
	}
	if o.http.sharesPort {
		return nil
	}
	return e.open(ctx)
}

// secureBy makes new connections use these certificates.
func (e *entrance) secureBy(certificates *pki.PKI) { e.secured.Store(certificates.TLSConfig()) }

// open listens, unless the entrance listens already.
func (e *entrance) open(ctx context.Context) (err error) {
	if e.listener != nil {
		return nil
	}
	if e.listener, err = e.options.http.bind(ctx, e.options.listen); err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	e.logger.Info("listening", "address", e.listener.Addr().String())
	e.Open(e.listener)
	return nil
}

// close closes what is still open when the server ends.
func (e *entrance) close() {
	if e.listener != nil {
		e.Close()
		_ = e.listener.Close() // serving has closed it, unless serving had not begun
	}
}

// stopped returns the error with which a server has ended. A server that is told to stop before it was ready has not
// failed, unless it has ended for another reason.
func (e *entrance) stopped(ctx context.Context, err error) error {
	if err == nil || e.ready || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	e.logger.Info("stopped before it was ready", "error", err)
	return nil
}
