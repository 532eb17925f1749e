package upstream

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
)

// Upstream's error about events that were not taken is logged once, in one line, and again after a while with the number of
// times.
func TestEventsNotTakenAreSaidSeldom(t *testing.T) {
	t.Cleanup(func() { _ = SetVerbosity("0") })
	var out bytes.Buffer
	LogTo(slog.New(slog.NewTextHandler(&out, nil)))
	again := func() {
		notTaken.mu.Lock()
		defer notTaken.mu.Unlock()
		for name, before := range notTaken.said {
			before.last = before.last.Add(-saidAgainIn)
			notTaken.said[name] = before
		}
	}
	fail := func() {
		audit.HandlePluginError("webhook", errors.New("refused"), &auditinternal.Event{AuditID: "an-event"}, &auditinternal.Event{})
	}
	notTaken.said = nil
	for range 3 {
		fail()
	}
	if got := out.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "affecting 2 audit events: refused") || strings.Contains(got, "an-event") {
		t.Errorf("of three times the log has %s", got)
	}
	out.Reset()
	audit.HandlePluginError("log", errors.New("no space left"), &auditinternal.Event{})
	if got := out.String(); !strings.Contains(got, "no space left") {
		t.Errorf("of another back end the log has %s", got)
	}
	out.Reset()
	again()
	if fail(); !strings.Contains(out.String(), "timesSince=2") {
		t.Errorf("after a while the log has %s", out.String())
	}
	out.Reset()
	if err := SetVerbosity("2"); err != nil {
		t.Fatal(err)
	}
	if fail(); !strings.Contains(out.String(), "an-event") {
		t.Errorf("at verbosity 2 the log has %s", out.String())
	}
}
