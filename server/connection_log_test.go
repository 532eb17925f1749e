package server

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// crowded is a listener in a process without free file descriptors.
type crowded struct {
	net.Listener
	until time.Time
}

func (c crowded) Accept() (net.Conn, error) {
	if time.Now().After(c.until) {
		return nil, net.ErrClosed
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
}

func (crowded) Close() error { return nil }

// While no connection can be accepted, which clients notice only as a delay, the log says so, but not for each attempt.
func TestNoConnectionIsAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		e, err := NewEntrance(EntranceConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.http.Serve(crowded{until: time.Now().Add(90 * time.Second)}); err == http.ErrServerClosed {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "no connection can be accepted") != 2 || !strings.Contains(text, `error="accept tcp: too many open files"`) {
			t.Errorf("the log has %q", text)
		}
	})
}
