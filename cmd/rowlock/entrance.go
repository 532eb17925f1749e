package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"

	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// entrance is the listener of a server, which is answered while objects are read, and while a database is waited for.
type entrance struct {
	*server.Entrance
	options  *serveOptions
	logger   *slog.Logger
	progress sqlstore.Progress
	secured  atomic.Pointer[tls.Config] // by whose certificates
	listener net.Listener
	ready    bool // the start is over
}

// begin is called when nobody else has the database. Where several servers have one port, another is to answer until this one can.
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
		Database:        e.progress.Database, Objects: e.progress.Objects, Hooks: append(controlplane.Hooks(o.authorization.mayAskRBAC()), o.proxies.hooks()...)}); err != nil {
		return err
	}
	if o.http.sharesPort {
		return nil
	}
	return e.open(ctx)
}

// secureBy has connections secured by these certificates from now on.
func (e *entrance) secureBy(certificates *pki.PKI) { e.secured.Store(certificates.TLSConfig()) }

// open listens, unless it does.
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

// close ends what a server that serves has ended already.
func (e *entrance) close() {
	if e.listener != nil {
		e.Close()
		_ = e.listener.Close() // it is closed, unless serving on it had not begun
	}
}

// stopped returns how a server has ended. One that is told to stop before it was ready has not failed, unless for another reason.
func (e *entrance) stopped(ctx context.Context, err error) error {
	if err == nil || e.ready || ctx.Err() == nil || !errors.Is(err, ctx.Err()) {
		return err
	}
	e.logger.Info("stopped before it was ready", "error", err)
	return nil
}
