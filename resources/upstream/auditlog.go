package upstream

import (
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/klog/v2"
)

// saidAgainIn is the time after which a failure of an audit back end is logged again.
const saidAgainIn = 10 * time.Minute

// notTaken limits upstream's log records about events that a back end of the audit did not take: an error for each request while a
// webhook is down, with all of the events. It logs one for each back end, without the events, and again every ten minutes while the
// failure lasts. At klog's verbosity 2 all records are logged.
var notTaken seldom

// seldom limits the records of each back end.
type seldom struct {
	mu   sync.Mutex
	said map[string]saying // by the name of the back end
}

// saying is the time of the last logged record, and the number of suppressed ones since.
type saying struct {
	last   time.Time
	unsaid int
}

const (
	notTakenBegins = "Error in audit plugin '"
	notTakenEvents = "\nImpacted events:"
)

// pass reports whether to log a record, and shortens it.
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
