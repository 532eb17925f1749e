package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// limits is the timer of the streams of a connection that are to be reset at a time. It is one for all of them: nearly every request sets
// such a time and is answered long before, which is not worth a timer for each.
type limits struct {
	timer *time.Timer
	at    time.Time // when it fires; the zero time: it is not set
}

// limitWrites resets the stream at a time, if its answer is not sent by then; the zero time never does. The caller holds mu.
func (st *stream) limitWrites(at time.Time) {
	st.until = at
	if !at.IsZero() && !st.closed {
		st.c.checkLimits(at)
	}
}

// checkLimits has the limits of all streams looked at, at a time or before. The caller holds mu.
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

// endLimited resets the streams whose time is over.
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
	c.flush() // which may wait for the client
}
