package trial

import (
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// TestKept checks that the history of a round that has failed is verified and kept, also without violations, and all others if they are asked for.
func TestKept(t *testing.T) {
	t.Parallel()
	failure := errors.New("the server has ended by itself")
	shown := history.Object{Name: "a", UID: "u", Revision: 11, Value: "1", Color: "red"}
	for name, c := range map[string]struct {
		value   string // that a client has written
		failed  error
		keepAll bool
		kept    bool
		broken  bool
	}{
		"clean":                    {value: "1"},
		"clean, all are kept":      {value: "1", keepAll: true, kept: true},
		"has failed":               {value: "1", failed: failure, kept: true},
		"has failed with a defect": {value: "2", failed: failure, kept: true, broken: true},
		"a defect":                 {value: "2", kept: true, broken: true},
	} {
		h := &history.History{Start: 10, End: 11, Operations: []history.Operation{{Kind: history.Create, Name: "a", Value: c.value, Color: "red", Call: 1, Return: 2}},
			Watches: []history.Watch{{Match: history.Exact, At: 10, Code: 200, Complete: c.failed == nil, Events: []history.Event{{Time: 3, Type: history.Added, Object: shown}}}}}
		if c.failed != nil {
			h.End, h.Cut = 0, true
		}
		report := &Report{}
		err := report.add(&Options{Keep: t.TempDir() + "/new", KeepAll: c.keepAll, Log: io.Discard}, h, c.failed)
		if !errors.Is(err, c.failed) || (len(report.Kept) > 0) != c.kept || (len(report.Violations) > 0) != c.broken || report.Partial > 0 != h.Cut {
			t.Errorf("%s: %v, %+v", name, err, report)
		}
		for _, path := range report.Kept {
			if file, err := os.Open(path); err != nil {
				t.Error(err)
			} else if again, err := history.Read(file); err != nil || !slices.Equal(again.Watches[0].Events, h.Watches[0].Events) || again.Cut != h.Cut {
				t.Errorf("%s: read again: %v, %+v", name, err, again)
			}
		}
	}
}
