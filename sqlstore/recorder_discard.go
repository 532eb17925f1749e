package sqlstore

import (
	"context"
	"math"
	"time"
)

// A server without an object history removes the one that is in the database (ObjectHistory.Discard), unless another
// server of the database still records. No table says whether one does, but its position does: a recorder moves it on
// before the log is pruned up to there. So the object history is abandoned if the log was pruned beyond its position,
// and the position has not moved for a while.

// discardAfter is how long the position has to stay where it is: longer than the age of the log, long enough for somebody
// who has forgotten the flag to notice, and where other servers may record, for these to come back.
func (r *recorder) discardAfter() time.Duration {
	wait := time.Hour
	if r.store.Shared() {
		wait = 24 * time.Hour
	}
	return max(wait, 2*r.store.options.HistoryAge)
}

// selectAbandonedSQL returns whether the log was pruned beyond a position ($1), and whether there are revisions.
const selectAbandonedSQL = `SELECT (SELECT floor FROM meta) > $1, EXISTS (SELECT 1 FROM revisions)`

// discards reports whether the step is to remove revisions. known is the position that the last step found, or 0.
func (s *recordingStep) discards(ctx context.Context, c sqlConn, known int64) (bool, error) {
	var abandoned, left bool
	if err := c.QueryRowContext(ctx, selectAbandonedSQL, s.was.revision).Scan(&abandoned, &left); err != nil {
		return false, unavailable(err)
	}
	s.upTo = s.was.revision
	if !left {
		return false, nil
	}
	now := s.store.clock.Now()
	if s.discardAt.IsZero() || known != s.was.revision {
		s.discardAt = now.Add(s.discardAfter())
		if known == 0 {
			s.store.logger.Warn("the database has an object history, and this server is started without one: it is removed, unless another server goes on with it", "after", s.discardAt)
		}
	}
	if s.result.next = s.discardAt; !isDue(s.discardAt, now) {
		return false, nil
	}
	s.result.next = now.Add(s.discardAfter())
	return abandoned, nil
}

// discard removes some revisions, the oldest ones first.
func (s *recordingStep) discard(ctx context.Context, c sqlConn) error {
	n, err := s.forget(ctx, c, forgetFirstSQL, forgetSteps*forgetStep, int64(math.MaxInt64))
	s.result.more = n == forgetSteps*forgetStep
	if n > 0 && !s.discarded {
		s.discarded = true
		s.store.logger.Warn("the object history is removed: no server has gone on with it", "since", s.store.clock.Now().Add(-s.discardAfter()))
	}
	return err
}
