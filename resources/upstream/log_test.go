package upstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// Log records of upstream's packages, by klog or as an error without a caller, are in Rowlock's log.
func TestUpstreamSpeaksThroughTheLog(t *testing.T) {
	var out bytes.Buffer
	LogTo(slog.New(slog.NewTextHandler(&out, nil)))
	klog.Info("said plainly")
	utilruntime.HandleError(errNobody{})
	utilruntime.HandleError(fmt.Errorf("edit failed with : %v", context.Canceled)) //nolint:errorlint // as a controller makes it when the server stops
	exists := apierrors.NewAlreadyExists(schema.GroupResource{Resource: "configmaps"}, "a")
	utilruntime.HandleError(fmt.Errorf("syncing %q failed: %v", "default", exists)) //nolint:errorlint // as upstream's controller does
	klog.Flush()
	for _, want := range []string{"said plainly", "nobody can be told", `level=INFO msg="Unhandled Error" err="syncing`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q: %s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "edit failed") {
		t.Errorf("what was broken off is told: %s", &out)
	}
}

// TestSetVerbosity: upstream's packages log more at a higher verbosity.
func TestSetVerbosity(t *testing.T) {
	t.Cleanup(klog.CaptureState().Restore)
	for v, want := range map[string]bool{"0": false, "5": true} {
		if err := SetVerbosity(v); err != nil || klog.V(5).Enabled() != want {
			t.Errorf("%s: %v, enabled %v", v, err, klog.V(5).Enabled())
		}
	}
	if SetVerbosity("loud") == nil {
		t.Error("a word is taken for a number")
	}
}

type errNobody struct{}

func (errNobody) Error() string { return "nobody can be told" }

// A server that starts while another one of the process logs takes over the log, for the race detector.
func TestLogsOfServers(t *testing.T) {
	var out [2]bytes.Buffer
	loggers := [2]*slog.Logger{slog.New(slog.NewTextHandler(&out[0], nil)), slog.New(slog.NewTextHandler(&out[1], nil))}
	LogTo(loggers[0])
	var work sync.WaitGroup
	work.Go(func() {
		for range 200 {
			klog.Info("meanwhile")
		}
	})
	for i := range 200 {
		LogTo(loggers[(i+1)%2])
	}
	work.Wait()
	LogTo(loggers[1])
	klog.InfoS("at last")
	if !strings.Contains(out[1].String(), "at last") || strings.Contains(out[0].String(), "at last") {
		t.Errorf("the first one has %q, the second one %q", out[0].String(), out[1].String())
	}
}
