package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// Some frames make no progress but cost the server time: PING, SETTINGS, PRIORITY, CONTINUATION, empty DATA, resets, and data for closed streams
// (RFC 9113, 10.5). A client that sends more than calmMost of them within calmTime gets ENHANCE_YOUR_CALM. A client that cancels a thousand watches
// at once and pings stays far below that.
const (
	calmMost = 20000
	calmTime = 10 * time.Second
)

// calm counts such frames.
type calm struct {
	now   func() time.Time
	count int
	since time.Time
}

// idle counts a frame.
func (c *calm) idle() error {
	if c.count == 0 {
		c.since = c.now()
	}
	if c.count++; c.count <= calmMost {
		return nil
	}
	c.count = 0
	if c.now().Sub(c.since) < calmTime {
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	return nil
}

// recent remembers the last streams that were reset or closed: frames that the client sent before it knew that its stream was reset are no error
// (RFC 9113, 5.1).
type recent struct {
	ids  [64]uint32
	next int
}

func (r *recent) add(id uint32) {
	r.ids[r.next%len(r.ids)] = id
	r.next++
}

func (r *recent) remove(id uint32) {
	for i, known := range r.ids {
		if known == id {
			r.ids[i] = 0
		}
	}
}

func (r *recent) has(id uint32) bool {
	for _, known := range r.ids {
		if known == id {
			return true
		}
	}
	return false
}
