package h2

import (
	"errors"
	"io"
	"net/http"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// headerReader reads header blocks (RFC 9113, 4.3; RFC 7541). It belongs to the reading goroutine.
type headerReader struct {
	// most is how large the fields of a request may be, as RFC 9113, 10.5.1 counts. A block may have twice as many bytes: what
	// is too large by less is answered, by more ends the connection, as does a block in more than mostContinuations.
	most uint32
	dec  *hpack.Decoder

	// A block of which more is to come.
	open          bool
	id            uint32
	ends          bool // the block ends what the client sends on the stream
	selfish       bool // the stream depends on itself
	block         []byte
	continuations int

	// The fields of the last block.
	fields    []hpack.HeaderField
	left      uint32
	regular   bool // one that is no pseudo field was read
	truncated bool // there were more than there may be
	invalid   error
}

const (
	mostContinuations = 128
	// keptBlock is how large a buffer for blocks is kept, in bytes; keptFields is for how many fields.
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
	r.most = uint32(mostBytes) + 10*32 // net/http counts without the 32 bytes that each field counts here; it is seldom more than ten
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
	r.block, r.continuations = r.block[:0], 0
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

// readContinuation reads a CONTINUATION frame (6.10), the limits of which are those of CVE-2023-45288.
func (c *conn) readContinuation(h head) error {
	if !c.header.open {
		return connError(http2.ErrCodeProtocol)
	}
	if c.header.continuations++; c.header.continuations > mostContinuations {
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	return c.readFragment(h, 0)
}

// readFragment reads a part of a block, and with the last one what it says.
func (c *conn) readFragment(h head, padding int) error {
	r := &c.header
	last := h.flags.Has(http2.FlagHeadersEndHeaders)
	if uint64(len(r.block)+h.length) > 2*uint64(r.most) {
		return connError(http2.ErrCodeEnhanceYourCalm)
	}
	if last && len(r.block) == 0 && h.length <= c.br.Size() { // as nearly always: it need not be copied
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

// decode reads a whole block. The table of the decoder has to see all of it, whatever is wrong with it.
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

// validName tells whether a name of a field is a token without capital letters (8.2.1).
func validName(name string) bool {
	for i := range len(name) {
		if b := name[i]; b >= 0x80 || 'A' <= b && b <= 'Z' || !httpguts.IsTokenRune(rune(b)) {
			return false
		}
	}
	return len(name) > 0
}

// forget lets go of the fields of the last block, which a connection that does nothing would keep.
func (r *headerReader) forget() {
	clear(r.fields)
	if r.fields = r.fields[:0]; cap(r.fields) > keptFields {
		r.fields = nil
	}
}

// headersRead does what a whole block asks for: it opens a stream or ends the body of one (8.1).
func (c *conn) headersRead() error {
	r := &c.header
	defer r.forget()
	r.open = false
	c.mu.Lock()
	st := c.streams[r.id]
	over := st == nil && r.id <= c.maxID
	away := c.goingAway && r.id > c.maxID
	late, known := over && c.resets.has(r.id), over && c.closed.has(r.id)
	c.mu.Unlock()
	switch {
	case away:
		return nil // the client has been told that it is not answered, and asks somebody else
	case late:
		return c.calm.idle()
	case known:
		return connError(http2.ErrCodeStreamClosed)
	case over: // 5.1.1
		return connError(http2.ErrCodeProtocol)
	case st == nil && (r.invalid != nil || r.selfish):
		c.mu.Lock()
		c.maxID = r.id // or the stream would be one that was never opened
		c.mu.Unlock()
		return streamError{r.id, http2.ErrCodeProtocol}
	case r.invalid != nil || r.selfish:
		return streamError{r.id, http2.ErrCodeProtocol}
	case st != nil:
		return c.readTrailers(st)
	}
	return c.open()
}
