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
// with all of the events. It is said once of each back end, without the events, and again every ten minutes while it lasts. At klog's
// verbosity 2 all of it is.
var notTaken seldom

// seldom lets one record of each back end pass now and then.
type seldom struct {
	mu   sync.Mutex
	said map[string]saying // by the name of the back end
}

// saying is when a record passed, and how many have not since.
type saying struct {
	last   time.Time
	unsaid int
}

const (
	notTakenBegins = "Error in audit plugin '"
	notTakenEvents = "\nImpacted events:"
)

// pass tells whether a record is to be in the log, and shortens it.
func (s *seldom) pass(r *slog.Record) bool {
	rest, ok := strings.CutPrefix(r.Message, notTakenBegins)
	if !ok || klog.V(2).Enabled() {
		return true
	}
	name, _, _ := strings.Cut(rest, "'")
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ok := s.said[name]
	if ok && r.Time.Sub(before.last) < saidAgainIn {
		before.unsaid++
		s.said[name] = before
		return false
	}
	r.Message, _, _ = strings.Cut(r.Message, notTakenEvents)
	if before.unsaid > 0 {
		r.AddAttrs(slog.Int("timesSince", before.unsaid))
	}
	if s.said == nil {
		s.said = map[string]saying{}
	}
	s.said[name] = saying{last: r.Time}
	return true
}
