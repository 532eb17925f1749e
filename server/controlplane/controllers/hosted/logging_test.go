package hosted_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// A controller that is stopped while it works does not log the failures that follow.
func TestNothingIsLoggedAfterTheEnd(t *testing.T) {
	var log bytes.Buffer // read when the controller has stopped
	ctx, stop := context.WithCancel(t.Context())
	c := hosted.New(hosted.Options{Name: "a test", Store: sqlitetest.Open(t), Logger: slog.New(slog.NewTextHandler(&log, nil)), Always: true,
		Run: func(ctx context.Context, _ *hosted.Informers) error {
			logger := klog.FromContext(ctx).WithName("worker").WithValues("of", "a test")
			logger.Error(nil, "before")
			stop()
			<-ctx.Done()
			logger.Error(ctx.Err(), "after")
			return nil
		}})
	c.Forget()
	c.Opened()
	c.Work(ctx)
	if got := log.String(); !strings.Contains(got, "before") || strings.Contains(got, "after") {
		t.Errorf("logged %s", got)
	}
}

// A conflict with another writer is logged at info, because upstream's controllers examine the object again.
func TestConflictsAreNoErrors(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelWarn: false, slog.LevelInfo: true} {
		var log bytes.Buffer // read when the controller has stopped
		ctx, stop := context.WithCancel(t.Context())
		c := hosted.New(hosted.Options{Name: "a test", Store: sqlitetest.Open(t), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), Always: true,
			Run: func(ctx context.Context, _ *hosted.Informers) error {
				ctx = klog.NewContext(ctx, klog.LoggerWithValues(klog.FromContext(ctx), "queueKey", "a"))
				conflict, other := apierrors.NewConflict(schema.GroupResource{Resource: "resourcequotas"}, "a", nil), apierrors.NewTimeoutError("other", 0)
				utilruntime.HandleErrorWithContext(ctx, conflict, "of a conflict")
				utilruntime.HandleErrorWithContext(ctx, utilerrors.NewAggregate([]error{conflict}), "of a conflict in a list")
				utilruntime.HandleErrorWithContext(ctx, utilerrors.NewAggregate([]error{conflict, other}), "of something else")
				utilruntime.HandleErrorWithContext(ctx, errors.Join(conflict, other), "of something joined")
				stop()
				return nil
			}})
		c.Forget()
		c.Opened()
		c.Work(ctx)
		if got := log.String(); strings.Contains(got, "of a conflict\"") != want || strings.Contains(got, "of a conflict in a list") != want || strings.Contains(got, "ERROR msg=\"of a conflict") || !strings.Contains(got, "ERROR msg=\"of something else") ||
			!strings.Contains(got, "ERROR msg=\"of something joined") {
			t.Errorf("%v: %s", level, got)
		}
	}
}
