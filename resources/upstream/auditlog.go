package upstream

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// saidAgainIn is how long what was said of a back end of the audit is not said again.
const saidAgainIn = 10 * time.Minute

// notTaken is what upstream says of events that a back end of the audit did not take: an error for each request while a webhook is dead,
// with all of the events. It is said once, without the events, and again every ten minutes while it lasts. At klog's verbosity 2 all of it is.
var notTaken seldom

// seldom lets one record pass now and then.
type seldom struct {
	mu     sync.Mutex
	last   time.Time
	unsaid int
}

const (
	notTakenBegins = "Error in audit plugin '"
	notTakenEvents = "\nImpacted events:"
)

// pass tells whether a record is to be in the log, and shortens it.
func (s *seldom) pass(r *slog.Record) bool {
	if !strings.HasPrefix(r.Message, notTakenBegins) || klog.V(2).Enabled() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && r.Time.Sub(s.last) < saidAgainIn {
		s.unsaid++
		return false
	}
	r.Message, _, _ = strings.Cut(r.Message, notTakenEvents)
	if s.unsaid > 0 {
		r.AddAttrs(slog.Int("timesSince", s.unsaid))
	}
	s.last, s.unsaid = r.Time, 0
	return true
}
