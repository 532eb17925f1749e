package sqlstore

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// probeEvery is the pause between two attempts to reach the database at the start.
	probeEvery = time.Second
	// remindEvery is how often the log says that the start still waits.
	remindEvery = 15 * time.Second
)

// await calls connect until it succeeds, fails for good, or patience has run out.
func (o *Options) await(ctx context.Context, connect func() error) error {
	began := o.Clock.Now()
	var reminded time.Time
	for {
		err := connect()
		now := o.Clock.Now()
		if err == nil || !passes(err) || ctx.Err() != nil {
			return err
		}
		if now.Sub(began)+probeEvery > o.Patience {
			if o.Patience > 0 {
				return fmt.Errorf("waited %v for it: %w", now.Sub(began).Round(time.Second), err)
			}
			return err
		}
		if reminded.IsZero() || now.Sub(reminded) >= remindEvery {
			o.Logger.Warn("the database cannot be used yet, trying again", "err", err, "for", o.Patience-now.Sub(began).Round(time.Second))
			reminded = now
		}
		timer := o.Clock.NewTimer(probeEvery)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		}
	}
}

// passes reports whether waiting may help against an error of the first connection: the server is not there yet, starts,
// is about to take over, or is full. What it says about the user, the database or a privilege will be the same later.
func passes(err error) bool {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		// Classes of https://www.postgresql.org/docs/current/errcodes-appendix.html: connection exceptions, lack of
		// resources, an operator's intervention (57P03: the server starts), errors of the system.
		for _, class := range []string{"08", "53", "57", "58"} {
			if strings.HasPrefix(refused.Code, class) {
				return true
			}
		}
		return false
	}
	var untrusted *tls.CertificateVerificationError
	var connection *pgconn.ConnectError
	return errors.As(err, &connection) && !errors.As(err, &untrusted)
}
