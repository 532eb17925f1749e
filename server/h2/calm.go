package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// Frames by which a client gets nowhere cost the server time nevertheless: PING, SETTINGS, PRIORITY, empty DATA, resets, data
// for streams that are over (RFC 9113, 10.5). Who sends more than calmMost of them within calmTime is told to calm down.
// A client that cancels a thousand watches at once and pings is far from it.
const (
	calmMost = 20000
	calmTime = 10 * time.Second
)

// calm counts them.
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

// recent remembers the last streams to which something happened: what the client sent before it heard that its stream was
// reset is no fault (RFC 9113, 5.1).
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
