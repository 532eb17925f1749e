package h2

import (
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headerReader decodes header blocks (RFC 9113, 4.3; RFC 7541). Only the reading goroutine uses it.
type headerReader struct {
	// most bounds the size of a request's fields, as counted in RFC 9113, 10.5.1. A block may have twice as many bytes: a block that is too large
	// by less is answered; a larger one ends the connection.
	most uint32
	dec  *hpack.Decoder

	// An incomplete block.
	open    bool
	id      uint32
	ends    bool // END_STREAM is set
	selfish bool // the stream depends on itself
	block   []byte
	late    *time.Timer // closes the connection when the rest does not come; nil: the block did not have to be waited for

	// The fields of the last block.
	fields    []hpack.HeaderField
	left      uint32
	regular   bool // a field other than a pseudo field was read
	truncated bool // most was exceeded
	invalid   error
}

const (
	// keptBlock is the size in bytes up to which the buffer for blocks is kept; keptFields is that number of fields.
	keptBlock  = 16 << 10
	keptFields = 64
)

var (
	errFieldName  = errors.New("invalid field name")
	errFieldValue = errors.New("invalid field value")
	errPseudo     = errors.New("invalid pseudo field")
)

func (r *headerReader) init(mostBytes int) {
	if mostBytes <= 0 {
		mostBytes = http.DefaultMaxHeaderBytes
	}
	r.most = uint32(mostBytes) + 10*32 // net/http does not count the 32 bytes per field that count here; ten fields are usual
	r.dec = hpack.NewDecoder(tableSize, r.field)
	r.dec.SetMaxStringLength(int(r.most))
}

// readHeaders reads a HEADERS frame (6.2).
func (c *conn) readHeaders(h head) error {
	if h.id%2 != 1 {
		return connError(http2.ErrCodeProtocol)
	}
	r := &c.header
	r.id, r.ends, r.selfish = h.id, h.flags.Has(http2.FlagHeadersEndStream), false
	r.block = r.block[:0]
	if c.br.Buffered() < h.length {
		c.awaitHeaders()
	}
	padding, err := c.readPadding(&h)
	if err != nil {
		return err
	}
	if h.flags.Has(http2.FlagHeadersPriority) {
		if h.length < 5 {
			return connError(http2.ErrCodeFrameSize)
		}
		h.length -= 5
		p, err := c.payload(head{length: 5}, 5)
		if err != nil {
			return err
		}
		r.selfish = dependency(p) == h.id
	}
	return c.readFragment(h, padding)
}

// readContinuation reads a CONTINUATION frame (6.10). A block may have any number of them; calm bounds their rate (CVE-2023-45288).
func (c *conn) readContinuation(h head) error {
	if !c.header.open {
		return connError(http2.ErrCodeProtocol)
	}
	if err := c.calm.idle(); err != nil {
		return err
	}
	return c.readFragment(h, 0)
}

// readFragment reads a part of a block, and processes the block after the last part.
func (c *conn) readFragment(h head, padding int) error {
	r := &c.header
	last := h.flags.Has(http2.FlagHeadersEndHeaders)
	if uint64(len(r.block)+h.length) > 2*uint64(r.most) {
		return connError(http2.ErrCodeProtocol) // as golang.org/x/net/http2
	}
	if !last || c.br.Buffered() < h.length {
		c.awaitHeaders()
	}
	if last && len(r.block) == 0 && h.length <= c.br.Size() { // nearly always; nothing is copied
		p, err := c.br.Peek(h.length)
		if err == nil {
			err = r.decode(p)
		}
		if err == nil {
			err = c.skip(h.length + padding)
		}
		if err != nil {
			return err
		}
		return c.headersRead()
	}
	from := len(r.block)
	r.block = append(r.block, make([]byte, h.length)...)
	if _, err := io.ReadFull(c.br, r.block[from:]); err != nil {
		return err
	}
	if r.open = !last; r.open {
		return c.skip(padding)
	}
	err := r.decode(r.block)
	if r.block = r.block[:0]; cap(r.block) > keptBlock {
		r.block = nil
	}
	if err != nil {
		return err
	}
	if err := c.skip(padding); err != nil {
		return err
	}
	return c.headersRead()
}

// awaitHeaders limits the time in which the rest of a block must arrive to http.Server.ReadHeaderTimeout. A connection without streams ends when
// it is idle, but one stream that goes on, such as a watch, would let it keep an incomplete block for as long.
func (c *conn) awaitHeaders() {
	if most := c.srv.http.ReadHeaderTimeout; most > 0 && c.header.late == nil {
		c.header.late = time.AfterFunc(most, func() { _ = c.nc.Close() })
	}
}

// arrived ends the limit of awaitHeaders.
func (r *headerReader) arrived() {
	if r.late != nil {
		r.late.Stop()
		r.late = nil
	}
}

// decode decodes a whole block. The decoder's table must see all of it, even after an error.
func (r *headerReader) decode(block []byte) error {
	r.fields, r.left, r.regular, r.truncated, r.invalid = r.fields[:0], r.most, false, false, nil
	r.dec.SetEmitEnabled(true)
	if _, err := r.dec.Write(block); err != nil {
		return connError(http2.ErrCodeCompression)
	}
	if err := r.dec.Close(); err != nil {
		return connError(http2.ErrCodeCompression)
	}
	return nil
}

// field is called with each field of a block (8.2.1, 8.3).
func (r *headerReader) field(f hpack.HeaderField) {
	switch {
	case !httpguts.ValidHeaderFieldValue(f.Value):
		r.invalid = errFieldValue
	case f.IsPseudo():
		if r.regular {
			r.invalid = errPseudo
		}
	default:
		r.regular = true
		if !validName(f.Name) {
			r.invalid = errFieldName
		}
	}
	if size := f.Size(); size > r.left {
		r.truncated = true
	} else {
		r.left -= size
	}
	if r.invalid != nil || r.truncated {
		r.dec.SetEmitEnabled(false)
		return
	}
	r.fields = append(r.fields, f)
}

// validName tells whether the name of a field is a token without capital letters (8.2.1).
func validName(name string) bool {
	for i := range len(name) {
		if b := name[i]; b >= 0x80 || 'A' <= b && b <= 'Z' || !httpguts.IsTokenRune(rune(b)) {
			return false
		}
	}
	return len(name) > 0
}

// forget drops the fields of the last block, which an idle connection would keep.
func (r *headerReader) forget() {
	clear(r.fields)
	if r.fields = r.fields[:0]; cap(r.fields) > keptFields {
		r.fields = nil
	}
}

// headersRead processes a whole block: it opens a stream or ends a request body (8.1).
func (c *conn) headersRead() error {
	r := &c.header
	defer r.forget()
	r.open = false
	r.arrived()
	c.mu.Lock()
	st := c.streams[r.id]
	over := st == nil && r.id <= c.maxID
	away := c.goingAway && r.id > c.maxID
	late, known := over && c.resets.has(r.id), over && c.closed.has(r.id)
	c.mu.Unlock()
	switch {
	case away:
		return nil // the GOAWAY told the client to retry elsewhere
	case late:
		return c.calm.idle()
	case known:
		return connError(http2.ErrCodeStreamClosed)
	case over: // 5.1.1
		return connError(http2.ErrCodeProtocol)
	case st == nil && (r.invalid != nil || r.selfish):
		c.mu.Lock()
		c.maxID = r.id // otherwise the stream would count as unopened
		c.mu.Unlock()
		return streamError{r.id, http2.ErrCodeProtocol}
	case r.invalid != nil || r.selfish:
		return streamError{r.id, http2.ErrCodeProtocol}
	case st != nil:
		return c.readTrailers(st)
	}
	return c.open()
}
