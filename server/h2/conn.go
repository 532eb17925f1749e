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
	// prefaceTimeout is how long a client may take to say that it speaks HTTP/2, and what its settings are.
	prefaceTimeout = 10 * time.Second
	// goAwayTimeout is how long a connection that has nothing more to say waits for the client to close it.
	goAwayTimeout = time.Second
	// readSize is how much is read at a time, in bytes. A connection that does nothing keeps this much.
	readSize = 8 << 10
)

// errGone is why a stream ended whose connection has.
var errGone = errors.New("client disconnected")

// conn is a connection.
type conn struct {
	srv     *server
	handler http.Handler
	nc      net.Conn
	below   corker // nil: the records of a write cannot be held together
	tls     *tls.ConnectionState
	remote  string
	ctx     context.Context
	cancel  context.CancelFunc

	// Of the reading goroutine alone.
	br     *bufio.Reader
	header headerReader
	calm   calm
	paused *time.Timer
	quiet  *quiet

	mu sync.Mutex

	// Streams.
	streams  map[uint32]*stream
	maxID    uint32    // the highest that the client has opened
	handlers int       // that run
	queued   []*stream // that wait for one of them to end
	resets   recent    // streams that the server has reset
	closed   recent    // streams that are closed
	ended    bool      // nothing is read any more

	// What is received.
	inflow inflow

	// What is sent.
	out        []byte // frames; nil while there are none
	control    int    // answers to control frames among them
	writing    bool
	writes     int         // how many have begun
	hurried    *time.Timer // not nil: the write under way has to end before it fires
	hurriedAt  time.Time   // when that is
	turns      []*stream   // who waits to be the one who writes
	err        error       // of a write
	enc        *hpack.Encoder
	window     int64     // what may be sent on all streams, in bytes (RFC 9113, 6.9.1)
	starved    []*stream // who waits for that, in order
	initial    int64     // window of a new stream
	frameMost  int       // the client's MAX_FRAME_SIZE
	bulk       []*stream // that have sent much and go on
	limits     limits
	resting    bool // the reading goroutine does not read for a moment
	rouse      chan struct{}
	goingAway  bool
	goAwayCode http2.ErrCode
	closing    *time.Timer

	// Streams that go on without their handlers: sequel.go.
	woken    []*Continued  // that have a step to make
	stepping bool          // a goroutine makes them, or is about to
	step     *Continued    // whose step it makes; nil: that of one goes on by itself
	stall    time.Duration // see Continue
	delayed  []*Continued  // that are woken when delay fires
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
	c.inflow = inflow{left: connWindow, size: connWindow}
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
	c.out = c.appendSettings(c.grown()) // they come first, whoever else has something to say
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

// resetFor resets a stream for an error of the client's. There has to be such a stream.
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

// greet reads the client's preface (RFC 9113, 3.4). The frame that follows it has to be SETTINGS.
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

// fail says what the client did wrong, and reads on for a moment: to close while there is something to read would keep what
// was said from it (RFC 9113, 5.4.1).
func (c *conn) fail(code http2.ErrCode) {
	c.mu.Lock()
	c.goAway(code)
	c.mu.Unlock()
	_ = c.nc.SetReadDeadline(time.Now().Add(goAwayTimeout)) // it is closed then, whatever comes
	_, _ = io.Copy(io.Discard, c.br)
}

// goAway says that no new streams are answered (RFC 9113, 6.8). The caller holds mu.
func (c *conn) goAway(code http2.ErrCode) {
	if c.goingAway && (code == http2.ErrCodeNo || c.goAwayCode != http2.ErrCodeNo) {
		return
	}
	c.goingAway, c.goAwayCode = true, code
	c.out = appendGoAway(c.grown(), c.maxID, code)
	c.flushSoon()
	c.closeWhenDone()
}

// closeWhenDone lets a connection that goes away end with its last stream. The caller holds mu.
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

// becameIdle is called when the last stream has ended. The timer is set only when there is none: to set it with each request
// would cost more than that it fires once in vain. The caller holds mu.
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
	_ = c.nc.Close() // it is of no use any more
}
