package sqlstore

import (
	"context"
	"crypto/tls"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/rowlock/rowlock/resources"
)

const (
	// probeEvery is the pause between two attempts to use the database at the start.
	probeEvery = time.Second
	// remindEvery is how often the log says that the start still waits.
	remindEvery = 15 * time.Second
	// moveEvery is the pause between two looks whether a Move has ended: clients wait for a server of the new store.
	moveEvery = 200 * time.Millisecond
)

// awaitMove calls f until it does not fail with ErrMoving, if the options want that.
func (o *Options) awaitMove(ctx context.Context, f func() error) error {
	for told := false; ; told = true {
		err := f()
		if !o.AwaitMove || !errors.Is(err, ErrMoving) {
			return err
		}
		if !told {
			o.Logger.Warn("waiting until the database is a store", "error", err)
		}
		if err := o.pause(ctx, moveEvery); err != nil {
			return err
		}
	}
}

// pause waits for a while. Errors: the context's.
func (o *Options) pause(ctx context.Context, d time.Duration) error {
	timer := o.Clock.NewTimer(d)
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		timer.Stop()
		return ctx.Err()
	}
}

// Await calls f until it does not fail because of the database, as Open does, or because of keys that cannot be had: the
// work of a server before it serves must not end when a connection breaks, nor when it starts before its KMS plugin. So
// f has to be repeatable. For a database that is a file, only the latter is waited for. Errors: those of f, the
// context's.
func (s *Store) Await(ctx context.Context, f func() error) error {
	keys := s.options.awaitsKeys()
	return s.options.awaitWhile(ctx, f, func(err error) bool { return s.peers != nil && passes(err) || keys(err) })
}

// awaitsKeys returns a function that reports whether waiting may help against an error, because the keys for an object
// cannot be had. They may have come between the error and the question, so it helps once more afterwards.
func (o *Options) awaitsKeys() func(error) bool {
	missing := true
	return func(err error) bool {
		var sealed *resources.TransformError
		if o.KeysMissing == nil || !errors.As(err, &sealed) || sealed.Undecodable {
			return false
		}
		before := missing
		missing = o.KeysMissing()
		return missing || before
	}
}

// await calls f until it does not fail because of the database.
func (o *Options) await(ctx context.Context, f func() error) error {
	return o.awaitWhile(ctx, f, passes)
}

// awaitWhile calls f until it succeeds, fails for good, or has failed for longer than AwaitTimeout.
func (o *Options) awaitWhile(ctx context.Context, f func() error, passes func(error) bool) error {
	var began, reminded time.Time
	for {
		err := f()
		now := o.Clock.Now()
		o.Progress.awaited(err)
		if err == nil || !passes(err) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		if began.IsZero() {
			began = now
		}
		if now.Sub(began)+probeEvery > o.AwaitTimeout {
			if o.AwaitTimeout > 0 {
				return fmt.Errorf("waited %v for it: %w", now.Sub(began).Round(time.Second), err)
			}
			return err
		}
		if reminded.IsZero() || now.Sub(reminded) >= remindEvery {
			o.Logger.Warn("the database cannot be used yet, trying again", "error", err, "for", o.AwaitTimeout-now.Sub(began).Round(time.Second))
			reminded = now
		}
		if err := o.pause(ctx, probeEvery); err != nil {
			return err
		}
	}
}

// passes reports whether waiting may help against an error at the start: the database server is not there yet, starts,
// is about to take over, or is full; a connection broke, or another server has the counter. What the database says
// about the user, a privilege or the tables will be the same later.
func passes(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		// Classes of https://www.postgresql.org/docs/current/errcodes-appendix.html: connection exceptions, rollbacks (of a
		// migration in a deadlock with running servers), lack of resources, an operator's intervention (57P03: the server
		// starts), errors of the system.
		for _, class := range []string{"08", "40", "53", "57", "58", lockNotAvailable, readOnlyTransaction, idleInTransaction, transactionTimeout} {
			if strings.HasPrefix(refused.Code, class) {
				return true
			}
		}
		return false
	}
	var untrusted *tls.CertificateVerificationError
	if errors.As(err, &untrusted) {
		return false
	}
	for _, broken := range []error{resources.ErrUnavailable, resources.ErrUnknownOutcome, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed,
		sqldriver.ErrBadConn, context.DeadlineExceeded} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var connection *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connection) || errors.As(err, &network) || pgconn.SafeToRetry(err)
}
