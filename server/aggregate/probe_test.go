package aggregate_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// A probe sends several requests at once. The requests that it does not wait for are not canceled: kube-apiserver lets them end, and a
// server with upstream's library logs an error for each canceled one.
func TestProbesEndByThemselves(t *testing.T) {
	const asks = 5
	f := newFixture(t)
	var begun atomic.Int32
	all, over := make(chan struct{}), make(chan struct{})
	ends := make(chan error, asks)
	hold := func(r *http.Request) {
		if r.URL.Path != apples || r.Header.Get("X-Remote-User") != "system:kube-aggregator" {
			return
		}
		switch n := begun.Add(1); {
		case n == 1:
			select {
			case <-r.Context().Done():
			case <-all:
			}
			return
		case n == asks:
			close(all)
		case n > asks:
			return
		}
		select {
		case <-r.Context().Done():
		case <-over:
		}
		ends <- r.Context().Err()
	}
	f.ext.before.Store(&hold)
	f.register()
	f.condition("Passed")
	f.must("POST", apples+"/things", "{}") // on the same connection, after the moment at which they would be canceled
	close(over)
	for range asks - 1 {
		select {
		case err := <-ends:
			if err != nil {
				t.Errorf("a request was broken off: %v", err)
			}
		case <-time.After(patience):
			t.Fatal("a request did not end")
		}
	}
}
