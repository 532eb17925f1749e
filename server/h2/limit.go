package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// limits is the timer for the write deadlines of a connection's streams. There is one for all of them: nearly every request sets a deadline and is
// answered long before, which is not worth a timer for each.
type limits struct {
	timer *time.Timer
	at    time.Time // when it fires; zero: it is not set
}

// limitWrites resets the stream at a time, unless its response is sent by then; zero means never. The caller holds mu.
func (st *stream) limitWrites(at time.Time) {
	st.until = at
	if !at.IsZero() && !st.closed {
		st.c.checkLimits(at)
	}
}

// checkLimits makes endLimited run at that time or earlier. The caller holds mu.
func (c *conn) checkLimits(at time.Time) {
	l := &c.limits
	if !l.at.IsZero() && !at.Before(l.at) || c.ended {
		return
	}
	l.at = at
	if l.timer == nil {
		l.timer = time.AfterFunc(time.Until(at), c.endLimited)
	} else {
		l.timer.Reset(time.Until(at))
	}
}

// endLimited resets streams whose deadline has passed.
func (c *conn) endLimited() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits.at = time.Time{}
	now := time.Now()
	var next time.Time
	for id, st := range c.streams {
		switch {
		case st.until.IsZero():
		case !st.until.After(now):
			c.reset(id, http2.ErrCodeInternal, errWriteDeadline)
		case next.IsZero() || st.until.Before(next):
			next = st.until
		}
	}
	if !next.IsZero() {
		c.checkLimits(next)
	}
	c.flush() // may wait for the client
}
