package h2

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
)

const (
	frameHeader = 9
	// minFrame is the least value of MAX_FRAME_SIZE, in bytes; mostFrame is ours (RFC 9113, 6.5.2). Larger frames would still arrive in TLS records
	// of this size.
	minFrame  = 16 << 10
	mostFrame = minFrame
)

// connError ends the connection, and streamError a stream (RFC 9113, 5.4).
type connError http2.ErrCode

func (e connError) Error() string { return http2.ErrCode(e).String() }

type streamError struct {
	id   uint32
	code http2.ErrCode
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: %s", e.id, e.code) }

// head is the header of a frame (RFC 9113, 4.1).
type head struct {
	length int
	typ    http2.FrameType
	flags  http2.Flags
	id     uint32
}

func (c *conn) readHeader() (head, error) {
	p, err := c.br.Peek(frameHeader)
	if err != nil {
		return head{}, err
	}
	h := head{length: int(p[0])<<16 | int(p[1])<<8 | int(p[2]), typ: http2.FrameType(p[3]), flags: http2.Flags(p[4]),
		id: binary.BigEndian.Uint32(p[5:]) & (1<<31 - 1)}
	_, err = c.br.Discard(frameHeader)
	return h, err
}

func putHead(p []byte, length int, typ http2.FrameType, flags http2.Flags, id uint32) {
	p[0], p[1], p[2], p[3], p[4] = byte(length>>16), byte(length>>8), byte(length), byte(typ), byte(flags)
	binary.BigEndian.PutUint32(p[5:], id)
}

func appendHead(p []byte, length int, typ http2.FrameType, flags http2.Flags, id uint32) []byte {
	p = append(p, make([]byte, frameHeader)...)
	putHead(p[len(p)-frameHeader:], length, typ, flags, id)
	return p
}

// readFrame reads and processes a frame.
func (c *conn) readFrame() error {
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	err = c.frame(h)
	if code := connError(0); errors.As(err, &code) {
		c.judged(h, code)
	}
	return err
}

// judged counts the stream of a frame that ends the connection among the processed streams (6.8), or the client would send the wrong request again. A
// frame that cannot be read has no stream. A GOAWAY never names a higher stream than one before it: the client may have sent the others elsewhere.
func (c *conn) judged(h head, code connError) {
	switch h.typ {
	case http2.FrameHeaders, http2.FrameContinuation, http2.FrameData, http2.FrameRSTStream, http2.FrameWindowUpdate:
	default:
		return
	}
	if http2.ErrCode(code) == http2.ErrCodeFrameSize {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.goingAway {
		c.maxID = max(c.maxID, h.id)
	}
}

func (c *conn) frame(h head) error {
	if h.length > mostFrame {
		return connError(http2.ErrCodeFrameSize)
	}
	// No frame may come between those of a header block (4.3).
	if c.header.open && (h.typ != http2.FrameContinuation || h.id != c.header.id) {
		return connError(http2.ErrCodeProtocol)
	}
	switch h.typ {
	case http2.FrameData:
		return c.readData(h)
	case http2.FrameHeaders:
		return c.readHeaders(h)
	case http2.FrameContinuation:
		return c.readContinuation(h)
	case http2.FrameWindowUpdate:
		return c.readWindowUpdate(h)
	}
	if err := c.calm.idle(); err != nil {
		return err
	}
	switch h.typ {
	case http2.FramePriority:
		return c.readPriority(h)
	case http2.FrameRSTStream:
		return c.readReset(h)
	case http2.FrameSettings:
		return c.readSettings(h)
	case http2.FramePing:
		return c.readPing(h)
	case http2.FrameGoAway:
		return c.readGoAway(h)
	case http2.FramePushPromise: // clients do not push (8.4)
		return connError(http2.ErrCodeProtocol)
	}
	return c.skip(h.length) // of an unknown type (4.1)
}

func (c *conn) skip(n int) error {
	_, err := c.br.Discard(n)
	return err
}

// payload reads the payload of a frame, which must have this size. The result is valid until the next read.
func (c *conn) payload(h head, size int) ([]byte, error) {
	if h.length != size {
		return nil, connError(http2.ErrCodeFrameSize)
	}
	p, err := c.br.Peek(size)
	if err != nil {
		return nil, err
	}
	_, err = c.br.Discard(size)
	return p, err
}

// readPadding returns the length of a frame's padding, and subtracts it and its length byte from the frame (6.1).
func (c *conn) readPadding(h *head) (int, error) {
	if !h.flags.Has(http2.FlagDataPadded) { // has the same bit as FlagHeadersPadded
		return 0, nil
	}
	if h.length == 0 {
		return 0, connError(http2.ErrCodeFrameSize)
	}
	b, err := c.br.ReadByte()
	if err != nil {
		return 0, err
	}
	if int(b) >= h.length {
		return 0, connError(http2.ErrCodeProtocol)
	}
	h.length -= 1 + int(b)
	return int(b), nil
}

// readPriority validates a PRIORITY frame, which RFC 9113, 5.3.2 deprecates. The server's settings say that it ignores priorities.
func (c *conn) readPriority(h head) error {
	if h.id == 0 {
		return connError(http2.ErrCodeProtocol)
	}
	if h.length != 5 {
		if err := c.skip(h.length); err != nil {
			return err
		}
		return streamError{h.id, http2.ErrCodeFrameSize}
	}
	p, err := c.payload(h, 5)
	if err != nil {
		return err
	}
	if dependency(p) == h.id {
		return streamError{h.id, http2.ErrCodeProtocol}
	}
	return nil
}

// dependency is the stream that a priority depends on.
func dependency(p []byte) uint32 { return binary.BigEndian.Uint32(p) & (1<<31 - 1) }

// readReset reads a RST_STREAM (6.4).
func (c *conn) readReset(h head) error {
	p, err := c.payload(h, 4)
	if err != nil {
		return err
	}
	code := http2.ErrCode(binary.BigEndian.Uint32(p))
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.id == 0 || c.unopened(h.id) {
		return connError(http2.ErrCodeProtocol)
	}
	if st := c.streams[h.id]; st != nil {
		defer c.flushSoon() // credits for the unread body are due
		c.close(st, http2.StreamError{StreamID: h.id, Code: code})
	}
	c.resets.remove(h.id) // the client knows of the reset now
	return nil
}

// readGoAway processes a GOAWAY: the client opens no more streams (6.8).
func (c *conn) readGoAway(h head) error {
	if h.id != 0 {
		return connError(http2.ErrCodeProtocol)
	}
	if h.length < 8 {
		return connError(http2.ErrCodeFrameSize)
	}
	if err := c.skip(h.length); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.goAway(http2.ErrCodeNo)
	return nil
}
