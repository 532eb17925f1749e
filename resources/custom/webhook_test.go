package custom

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// The error of a conversion blames a webhook that does not answer, unless the request's own time is over.
func TestWhoseTimeIsOver(t *testing.T) {
	said := errors.New(`conversion webhook for example.com/v1, Kind=Widget failed: Post "https://example.com": context deadline exceeded`)
	impatient, cancel := context.WithTimeoutCause(t.Context(), 0, resources.ErrImpatient)
	defer cancel()
	late, done := context.WithTimeout(t.Context(), 0)
	defer done()
	both, end := context.WithTimeoutCause(late, time.Hour, resources.ErrImpatient)
	defer end()
	for name, c := range map[string]struct {
		ctx  context.Context
		late bool
	}{
		"of nobody":      {t.Context(), false},
		"of the webhook": {impatient, false},
		"of the request": {late, true},
		"of the request, earlier than that of the webhook": {both, true},
	} {
		err := unconverted(c.ctx, said)
		if errors.Is(err, context.DeadlineExceeded) != c.late || errors.As(err, new(*resources.ConversionError)) == c.late {
			t.Errorf("the time %s is over: %v", name, err)
		}
	}
}

// A write waits for room among the requests to the webhook, and no longer than its request lasts.
func TestConversionForWriteWaitsForRoom(t *testing.T) {
	d := &definition{lines: &lines{}}
	d.conversions = newConversions(d)
	for range requestsOfAll {
		if err := d.conversions.enter(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.convert(ctx, map[string]any{}, "v1", "v2"); !errors.Is(err, context.Canceled) {
		t.Errorf("without room: %v", err)
	}
	if n := len(d.lines.free); n > 0 {
		t.Error("the webhook has a connection")
	}
	d.conversions.leave()
	if err := d.conversions.enter(t.Context()); err != nil || len(d.conversions.room) != requestsOfAll {
		t.Errorf("%v, %d requests", err, len(d.conversions.room))
	}
}
