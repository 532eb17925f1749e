package h2

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// prefaceTimeout is how long a client may take to send the preface and its settings.
	prefaceTimeout = 10 * time.Second
	// goAwayTimeout is how long a finished connection waits for the client to close it.
	goAwayTimeout = time.Second
	// readSize is the size in bytes of the read buffer, which an idle connection keeps.
	readSize = 8 << 10
)

// errGone is the error of streams whose connection has ended.
var errGone = errors.New("client disconnected")

// conn is a connection.
type conn struct {
	srv     *server
	handler http.Handler
	nc      net.Conn
	below   corker // nil: the records of a write cannot be corked
	tls     *tls.ConnectionState
	remote  string
	ctx     context.Context
	cancel  context.CancelFunc

	// Used only by the reading goroutine.
	br     *bufio.Reader
	header headerReader
	calm   calm
	paused *time.Timer
	quiet  *quiet

	mu sync.Mutex

	// Streams.
	streams  map[uint32]*stream
	maxID    uint32    // the highest opened by the client
	handlers int       // running handlers
	queued   []*stream // waiting for a handler to end
	resets   recent    // streams that the server has reset
	closed   recent    // streams that are closed
	ended    bool      // reading has ended

	// Receiving.
	inflow inflow

	// Sending.
	out        []byte // frames; nil while there are none
	control    int    // responses to control frames in out
	writing    bool
	writes     int         // number of writes so far
	hurried    *time.Timer // not nil: the current write must end before it fires
	hurriedAt  time.Time   // when hurried fires
	turns      []*stream   // streams that wait for their turn to write
	err        error       // of a write
	enc        *hpack.Encoder
	window     int64     // send window of the connection, in bytes (RFC 9113, 6.9.1)
	starved    []*stream // streams that wait for that window, in order
	initial    int64     // window of a new stream
	frameMost  int       // the client's MAX_FRAME_SIZE
	bulk       []*stream // streams that are sending large responses
	limits     limits
	resting    bool // the reading goroutine pauses
	rouse      chan struct{}
	goingAway  bool
	goAwayCode http2.ErrCode
	closing    *time.Timer

	// Responses that outlive their handlers: sequel.go.
	woken    []*Continued  // with a step to make
	stepping bool          // a goroutine makes steps, or is about to
	step     *Continued    // whose step it makes; nil: a step has gone aside
	stall    time.Duration // see Continue
	delayed  []*Continued  // woken when delay fires
	delay    *time.Timer

	idle      *time.Timer // nil: there is no limit
	idleMost  time.Duration
	idleSince time.Time
	idleArmed bool
}

func (s *server) newConn(nc net.Conn, ctx context.Context, h http.Handler) *conn {
	c := &conn{srv: s, handler: h, nc: nc, remote: nc.RemoteAddr().String(), streams: map[uint32]*stream{},
		window: initialWindow, initial: initialWindow, frameMost: minFrame, rouse: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.inflow = inflow{left: connWindow}
	c.quiet = newQuiet(nc)
	c.br = bufio.NewReaderSize(nc, readSize)
	c.header.init(s.http.MaxHeaderBytes)
	c.calm.now = time.Now
	c.enc = hpack.NewEncoder(gathered{c})
	c.enc.SetMaxDynamicTableSizeLimit(tableSize)
	return c
}

// serve reads until the connection ends.
func (c *conn) serve() {
	c.out = c.appendSettings(c.grown()) // the first frame on the connection must be SETTINGS
	ending := c.srv.add(c)
	defer c.srv.remove(c)
	defer c.end()
	c.mu.Lock()
	if ending {
		c.goAway(http2.ErrCodeNo)
	}
	c.flushSoon()
	c.mu.Unlock()
	if err := c.greet(); err != nil {
		return
	}
	c.setState(http.StateActive)
	c.setState(http.StateIdle)
	c.watchIdle()
	for {
		c.rest()
		err := c.readFrame()
		if err == nil {
			continue
		}
		var code connError
		var reset streamError
		switch {
		case errors.As(err, &reset):
			if !c.resetFor(reset) {
				c.fail(reset.code)
				return
			}
		case errors.As(err, &code):
			c.logf("http2: connection error from %s: %v", c.remote, err)
			c.fail(http2.ErrCode(code))
			return
		default:
			return
		}
	}
}

// resetFor resets a stream because of a client's error. It returns false if the stream was never opened.
func (c *conn) resetFor(e streamError) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unopened(e.id) {
		return false
	}
	c.reset(e.id, e.code, e)
	c.flushSoon()
	return true
}

// greet reads the client's preface (RFC 9113, 3.4). The next frame must be SETTINGS.
func (c *conn) greet() error {
	if err := c.nc.SetReadDeadline(time.Now().Add(prefaceTimeout)); err != nil {
		return err
	}
	preface := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(c.br, preface); err != nil {
		return err
	}
	if string(preface) != http2.ClientPreface {
		return errors.New("no HTTP/2")
	}
	h, err := c.readHeader()
	if err != nil {
		return err
	}
	if h.typ != http2.FrameSettings || h.flags.Has(http2.FlagSettingsAck) {
		c.fail(http2.ErrCodeProtocol)
		return connError(http2.ErrCodeProtocol)
	}
	if err := c.frame(h); err != nil {
		var code connError
		if errors.As(err, &code) {
			c.fail(http2.ErrCode(code))
		}
		return err
	}
	return c.nc.SetReadDeadline(time.Time{})
}

// fail sends a GOAWAY for a client's error, and reads on for a moment: closing the connection with unread data would make the client lose the
// GOAWAY (RFC 9113, 5.4.1).
func (c *conn) fail(code http2.ErrCode) {
	c.mu.Lock()
	c.goAway(code)
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Now().Add(goAwayTimeout)) // the connection is closed then in any case
	_, _ = io.Copy(io.Discard, c.br)
}

// goAway announces that no new streams are served (RFC 9113, 6.8). The caller holds mu.
func (c *conn) goAway(code http2.ErrCode) {
	if c.goingAway && (code == http2.ErrCodeNo || c.goAwayCode != http2.ErrCodeNo) {
		return
	}
	c.goingAway, c.goAwayCode = true, code
	c.out = appendGoAway(c.grown(), c.maxID, code)
	c.flushSoon()
	c.closeWhenDone()
}

// closeWhenDone closes a connection after its GOAWAY and its last stream. The caller holds mu.
func (c *conn) closeWhenDone() {
	if !c.goingAway || len(c.streams) > 0 || c.closing != nil || c.ended {
		return
	}
	c.closing = time.AfterFunc(goAwayTimeout, func() { _ = c.nc.Close() })
}

// watchIdle ends a connection that has had no stream for http.Server.IdleTimeout.
func (c *conn) watchIdle() {
	timeout := c.srv.http.IdleTimeout
	if timeout == 0 {
		timeout = c.srv.http.ReadTimeout
	}
	if c.idleMost = timeout; timeout <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.idleSince, c.idleArmed = time.Now(), true
	c.idle = time.AfterFunc(timeout, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.idleArmed = false
		if len(c.streams) > 0 || c.ended {
			return
		}
		if left := timeout - time.Since(c.idleSince); left > 0 {
			c.idleArmed = true
			c.idle.Reset(left)
			return
		}
		c.goAway(http2.ErrCodeNo)
	})
}

// becameIdle is called when the last stream has ended. It sets the timer only if it is not running: setting it after each request would cost more
// than a timer that fires in vain. The caller holds mu.
func (c *conn) becameIdle() {
	c.setState(http.StateIdle)
	if c.idle == nil {
		return
	}
	c.idleSince = time.Now()
	if !c.idleArmed && !c.ended {
		c.idleArmed = true
		c.idle.Reset(c.idleMost)
	}
}

// end closes the connection and every stream of it.
func (c *conn) end() {
	c.header.arrived()
	c.mu.Lock()
	c.ended = true
	if c.limits.timer != nil {
		c.limits.timer.Stop()
	}
	if c.idle != nil {
		c.idle.Stop()
	}
	if c.closing != nil {
		c.closing.Stop()
	}
	if c.hurried != nil {
		c.hurried.Stop()
	}
	if c.delay != nil {
		c.delay.Stop()
	}
	for _, st := range c.streams {
		c.close(st, errGone)
	}
	c.queued = nil
	if c.err == nil {
		c.err = errGone
	}
	c.mu.Unlock()
	c.cancel()
	_ = c.nc.Close() // nothing more is sent or received
}
