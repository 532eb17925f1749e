package main

import (
	"log/slog"
	"testing"

	"github.com/rowlock/rowlock/resources/upstream"
)

// Two servers have one port when both want it so.
func TestPortSharing(t *testing.T) {
	shares := httpOptions{sharesPort: true, sharesAddress: true}
	first, err := shares.bind(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	second, err := shares.bind(t.Context(), first.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if third, err := new(httpOptions).bind(t.Context(), first.Addr().String()); err == nil {
		third.Close()
		t.Error("somebody who does not share it has the port, too")
	}
}

// The verbosity of kube-apiserver's log stands for a level, which can be changed while the server runs.
func TestSetVerbosity(t *testing.T) {
	t.Cleanup(func() {
		if err := upstream.SetVerbosity("0"); err != nil {
			t.Error(err)
		}
	})
	var o logOptions
	for v, want := range map[string]slog.Level{"0": slog.LevelWarn, "2": slog.LevelInfo, "4": slog.LevelDebug, "9": slog.LevelDebug} {
		answer, err := o.setVerbosity(v)
		if err != nil || answer != "successfully set klog.logging.verbosity to "+v || o.now.Level() != want {
			t.Errorf("%s: %q, %v, level %v", v, answer, err, o.now.Level())
		}
	}
	if _, err := o.setVerbosity("loud"); err == nil {
		t.Error("a word is taken for a number")
	}
}
