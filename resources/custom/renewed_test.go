package custom

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// failing is a store whose reads fail.
type failing struct {
	resources.View

	err   error
	reads int
}

func (f *failing) Snapshot(context.Context, string, resources.At) (resources.Snapshot, error) {
	f.reads++
	return nil, f.err
}

// The store is read when watches have to end, and only then. If it cannot be read, they go on, which is logged, unless it is closed.
func TestWatchesThatCannotEnd(t *testing.T) {
	by := convertedBy(t, newSlowConverter(t, 1, nil), &lines{}, 3)
	for name, c := range map[string]struct {
		renewed int64 // the last generation with another result
		err     error
		reads   int
		logs    bool
	}{
		"first":   {2, errors.New("broken"), 1, true},
		"closed":  {2, fmt.Errorf("read: %w", resources.ErrClosed), 1, false},
		"further": {3, errors.New("broken"), 0, false},
	} {
		var log bytes.Buffer
		store := &failing{err: c.err}
		d := &Definitions{Config: Config{Store: store, Logger: slog.New(slog.NewTextHandler(&log, nil))}, byName: map[string]*definition{by.name: by}}
		v2 := by.types.of("v2")
		v2.Renewed = c.renewed
		d.reshow(by, v2)
		if logs := strings.Contains(log.String(), "broken"); store.reads != c.reads || logs != c.logs {
			t.Errorf("%s: %d reads, %s", name, store.reads, &log)
		}
	}
}
