package upstream

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"
)

// What upstream's packages say, by klog or as an error that nobody can be told, is in Rowlock's log.
func TestUpstreamSpeaksThroughTheLog(t *testing.T) {
	var out bytes.Buffer
	t.Cleanup(klog.CaptureState().Restore)
	LogTo(slog.New(slog.NewTextHandler(&out, nil)))
	klog.Info("said plainly")
	utilruntime.HandleError(errNobody{})
	klog.Flush()
	for _, want := range []string{"said plainly", "nobody can be told"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the log has no %q: %s", want, out.String())
		}
	}
}

// TestSetVerbosity: upstream's packages say more when they are asked to.
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
