package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/e2e/checker/clock"
	"github.com/rowlock/rowlock/e2e/checker/trial"
	"github.com/rowlock/rowlock/e2e/harness"
)

// TestClocks lets clients work while the clocks of servers jump by up to decades, forward and back, and servers are killed.
func TestClocks(t *testing.T) {
	clocks(t)
	o := histories(t)
	o.Faults, o.Pause = []string{"clock", "clock", "kill"}, 300*time.Millisecond
	o.Duration, o.Round = 6*time.Second, 6*time.Second
	if o.Database == trial.Postgres {
		o.Servers = 3
	}
	report := wantClean(t, o)
	if report.Faults["clock"] == 0 {
		t.Error("no clock has jumped")
	}
}

// TestClocksBite checks that a server shows the jump of its clock: in a header, and in objects that it writes.
func TestClocksBite(t *testing.T) {
	ctx := clocks(t)
	var jumping *clock.Clock
	server := startServer(t, harness.RowlockOptions{Begin: func(cmd *exec.Cmd) (err error) {
		jumping, err = clock.Start(cmd, 0)
		return err
	}})
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, offset := range []time.Duration{0, 90 * time.Minute, -20 * time.Minute, 30 * 24 * time.Hour, 20 * time.Second} {
		if err := jumping.Set(offset); err != nil {
			t.Fatal(err)
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL+"/api/v1/namespaces/default/configmaps", strings.NewReader(`{"metadata":{"generateName":"clock-"}}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		var made metav1.PartialObjectMetadata
		if err := errors.Join(json.NewDecoder(response.Body).Decode(&made), response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		date, err := http.ParseTime(response.Header.Get("Date"))
		if err != nil {
			t.Fatal(err)
		}
		for what, shown := range map[string]time.Time{"Date": date, "creationTimestamp": made.CreationTimestamp.Time} {
			if off := time.Until(shown) - offset; off.Abs() > 10*time.Second {
				t.Errorf("the clock is off by %v, and %s is %v", offset, what, shown)
			}
		}
	}
}

// clocks builds the server. It skips the test where no process can be given a clock.
func clocks(t *testing.T) context.Context {
	t.Helper()
	if err := clock.Available(); err != nil {
		unavailable(t, err)
	}
	if err := buildRowlock(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	t.Cleanup(cancel)
	return ctx
}
