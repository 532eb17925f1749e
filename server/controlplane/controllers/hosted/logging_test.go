package hosted_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// A controller that is stopped while it works says nothing of what fails then.
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
