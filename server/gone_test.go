package server_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// slowStore answers lists of PodTemplates when the caller gives up, or with an error.
type slowStore struct {
	resources.View
	asked chan struct{}
	err   error
}

func (s *slowStore) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if resource != "podtemplates" || at.Match == resources.Any { // such a read waits for nothing
		return s.View.Snapshot(ctx, resource, at)
	}
	if s.err != nil {
		return nil, s.err
	}
	close(s.asked)
	<-ctx.Done()
	return nil, ctx.Err()
}

// logBuffer is a log for concurrent use.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// A disconnect of the client is no error of the server. An error with the client connected is one.
func TestClientsThatGoAwayAreNoErrors(t *testing.T) {
	var log logBuffer
	store := &slowStore{asked: make(chan struct{})}
	s := newServer(t, func(c *server.Config) {
		store.View, c.Store = c.Store, store
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	address, stop, done := serve(t, s)
	list := func(ctx context.Context) (*http.Response, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/api/v1/podtemplates", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "master")
		return http.DefaultClient.Do(r)
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := list(ctx)
		left <- err
	}()
	<-store.asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("the client got %v", err)
	}
	store.err = errors.New("on purpose")
	answer, err := list(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	stop() // waits for requests in flight
	if err := <-done; err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Contains(text, "canceled") || !strings.Contains(text, `level=ERROR msg="request failed"`) ||
		!strings.Contains(text, "on purpose") {
		t.Errorf("the log: %s", text)
	}
}
