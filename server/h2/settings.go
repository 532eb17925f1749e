package h2

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"golang.org/x/net/http2"
)

const (
	initialWindow = 1<<16 - 1 // of both sides, before SETTINGS (RFC 9113, 6.9.2)
	mostWindow    = math.MaxInt32
	tableSize     = 4096 // of both HPACK tables, in bytes
)

// appendSettings appends the server's SETTINGS, and a WINDOW_UPDATE for the connection, whose window is no setting.
func (c *conn) appendSettings(p []byte) []byte {
	settings := []http2.Setting{
		{ID: http2.SettingMaxFrameSize, Val: mostFrame},
		{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.srv.maxStreams)},
		{ID: http2.SettingMaxHeaderListSize, Val: c.header.most},
		{ID: http2.SettingHeaderTableSize, Val: tableSize},
		{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		{ID: http2.SettingNoRFC7540Priorities, Val: 1},
	}
	p = appendHead(p, 6*len(settings), http2.FrameSettings, 0, 0)
	for _, s := range settings {
		p = binary.BigEndian.AppendUint16(p, uint16(s.ID))
		p = binary.BigEndian.AppendUint32(p, s.Val)
	}
	return appendWindowUpdate(p, 0, connWindow-initialWindow)
}

// mostSettings bounds the settings in a frame.
const mostSettings = 100

// readSettings reads the client's settings, or its acknowledgement of ours (6.5).
func (c *conn) readSettings(h head) error {
	ack := h.flags.Has(http2.FlagSettingsAck)
	switch {
	case h.id != 0:
		return connError(http2.ErrCodeProtocol)
	case h.length%6 != 0 || ack && h.length != 0:
		return connError(http2.ErrCodeFrameSize)
	case h.length > 6*mostSettings:
		return connError(http2.ErrCodeEnhanceYourCalm)
	case ack:
		return nil
	}
	p, err := c.payload(h, h.length)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	window := c.initial
	for ; len(p) > 0; p = p[6:] {
		s := http2.Setting{ID: http2.SettingID(binary.BigEndian.Uint16(p)), Val: binary.BigEndian.Uint32(p[2:])}
		if err := c.set(s); err != nil {
			return err
		}
		if s.ID == http2.SettingInitialWindowSize {
			window = int64(s.Val)
		}
	}
	if err := c.resize(window); err != nil { // once, however often the frame has it
		return err
	}
	return c.answer(appendHead(c.grown(), 0, http2.FrameSettings, http2.FlagSettingsAck, 0))
}

// set applies a setting (6.5.2).
func (c *conn) set(s http2.Setting) error {
	if err := s.Valid(); err != nil {
		if s.ID == http2.SettingInitialWindowSize {
			return connError(http2.ErrCodeFlowControl)
		}
		return connError(http2.ErrCodeProtocol)
	}
	switch s.ID {
	case http2.SettingHeaderTableSize:
		c.enc.SetMaxDynamicTableSize(s.Val)
	case http2.SettingMaxFrameSize:
		c.frameMost = int(s.Val)
	}
	return nil
}

// resize changes the windows of all streams by the change of the initial window (6.9.2). The caller holds mu.
func (c *conn) resize(initial int64) error {
	growth := initial - c.initial
	if growth == 0 {
		return nil
	}
	c.initial = initial
	for _, st := range c.streams {
		if st.window += growth; st.window > mostWindow {
			return connError(http2.ErrCodeFlowControl)
		}
		st.windowGrew()
	}
	return nil
}

// readPing answers a PING (6.7).
func (c *conn) readPing(h head) error {
	if h.id != 0 {
		return connError(http2.ErrCodeProtocol)
	}
	p, err := c.payload(h, 8)
	if err != nil || h.flags.Has(http2.FlagPingAck) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answer(append(appendHead(c.grown(), 8, http2.FramePing, http2.FlagPingAck, 0), p...))
}

// answer sends out, which is conn.out with the response to a control frame. The caller holds mu.
func (c *conn) answer(out []byte) error {
	c.out = out
	if c.control++; c.control > controlMost {
		return connError(http2.ErrCodeEnhanceYourCalm) // the client sends and does not read
	}
	c.flushSoon()
	return nil
}

// readWindowUpdate increases a send window (6.9). A client that reads a list sends mostly this frame: only streams that wait for the window are
// woken.
func (c *conn) readWindowUpdate(h head) error {
	p, err := c.payload(h, 4)
	if err != nil {
		return err
	}
	n := int64(binary.BigEndian.Uint32(p) & (1<<31 - 1))
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id == 0 {
		if n == 0 {
			return connError(http2.ErrCodeProtocol)
		}
		if c.window += n; c.window > mostWindow {
			return connError(http2.ErrCodeFlowControl)
		}
		c.feed()
		return nil
	}
	if c.unopened(h.id) {
		return connError(http2.ErrCodeProtocol)
	}
	st := c.streams[h.id]
	switch {
	case n == 0:
		return streamError{h.id, http2.ErrCodeProtocol}
	case st == nil:
		return nil // sent before the client knew of the stream's end, for example while it read the rest of the response
	}
	if st.window += n; st.window > mostWindow {
		return streamError{h.id, http2.ErrCodeFlowControl}
	}
	st.windowGrew()
	return nil
}

func appendWindowUpdate(p []byte, id uint32, n int) []byte {
	return binary.BigEndian.AppendUint32(appendHead(p, 4, http2.FrameWindowUpdate, 0, id), uint32(n))
}

func appendGoAway(p []byte, last uint32, code http2.ErrCode) []byte {
	p = binary.BigEndian.AppendUint32(appendHead(p, 8, http2.FrameGoAway, 0, 0), last)
	return binary.BigEndian.AppendUint32(p, uint32(code))
}

func appendReset(p []byte, id uint32, code http2.ErrCode) []byte {
	return binary.BigEndian.AppendUint32(appendHead(p, 4, http2.FrameRSTStream, 0, id), uint32(code))
}

// A client acknowledges every few KiB with two frames, and each time wakes the reading goroutine, which costs more than reading them. While large
// responses are being sent and the windows are wide, nothing waits for these frames: the goroutine rests, and reads them together.
const (
	// restTime is the length of a rest. It bounds the delay for a new request on the same connection.
	restTime = 500 * time.Microsecond
	// restRoom is how many bytes the windows must allow during a rest.
	restRoom = 512 << 10
	// wideWindow is the initial window, in bytes, from which on a client takes longer than restTime to read a whole window: it does not run out
	// of data before more is sent.
	wideWindow = 2 << 20
)

// patient tells whether a rest of the reading goroutine does not delay a stream. The caller holds mu.
func (c *conn) patient(st *stream) bool {
	return c.window >= restRoom && (st.window >= restRoom || c.initial >= wideWindow)
}

// rest lets frames accumulate, if that delays nothing. It first lets received data be read, because each TLS record, with its two frames, is read
// on its own.
func (c *conn) rest() {
	if c.br.Buffered() > 0 {
		return
	}
	c.mu.Lock()
	rests := c.mayRest()
	c.mu.Unlock()
	if !rests || c.quiet.pending() {
		return
	}
	c.mu.Lock()
	c.resting = c.mayRest()
	rests = c.resting
	c.mu.Unlock()
	if !rests {
		return
	}
	if c.paused == nil {
		c.paused = time.NewTimer(restTime)
	} else {
		c.paused.Reset(restTime)
	}
	c.quiet.on()
	select {
	case <-c.rouse:
		c.paused.Stop()
	case <-c.paused.C:
	}
	c.quiet.off()
	c.mu.Lock()
	c.resting = false
	select {
	case <-c.rouse:
	default:
	}
	c.mu.Unlock()
}

// mayRest tells whether large responses are being sent and nothing depends on the client's frames. The caller holds mu.
func (c *conn) mayRest() bool {
	return len(c.bulk) > 0 && !c.ended && !slices.ContainsFunc(c.bulk, func(st *stream) bool { return !c.patient(st) })
}

// read ends a rest. The caller holds mu.
func (c *conn) read() {
	if c.resting {
		c.resting = false
		c.rouse <- struct{}{} // does not block: rest empties it
	}
}
