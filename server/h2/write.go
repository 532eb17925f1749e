package h2

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// outMost is how many bytes are buffered in conn.out before a writer must wait.
	outMost = 128 << 10
	// controlMost bounds the unsent responses to control frames.
	controlMost = 10000
	// outRoom is the initial size of conn.out, and wideRoom the size for streams of many watches that buffer the frames of one event: outMost, and
	// what a stream adds then. midRoom is in between: when the clients of many connections read nothing, each connection keeps its buffer, and most
	// hold little.
	outRoom, midRoom, wideRoom = 32 << 10, 64 << 10, outMost + 2*copyMost
	// writeMost is how long a client may take to read up to largeRoom and outMost bytes, once something waits for that.
	writeMost = 30 * time.Second
	// endMost is how long the end of a response without a deadline, such as that of a log, may wait for the window of a client that has not asked for
	// it yet.
	endMost = time.Hour
	// mostRounds is how often a writer sends what others have buffered meanwhile, before it leaves that to a goroutine.
	mostRounds = 16
)

// corker is a connection below TLS that can hold the records of a write together.
type corker interface {
	Cork()
	Uncork()
}

var (
	outs  = sync.Pool{New: func() any { return new([outRoom]byte) }}
	mids  = sync.Pool{New: func() any { return new([midRoom]byte) }}
	wides = sync.Pool{New: func() any { return new([wideRoom]byte) }}
)

// grown returns conn.out, with room. The caller holds mu.
func (c *conn) grown() []byte {
	if c.out == nil {
		c.out = outs.Get().(*[outRoom]byte)[:0]
	}
	return c.out
}

// grownBy is grown, with room for n more bytes, up to wideRoom in total: growth by append would leave several times the sent bytes as garbage. The
// caller holds mu.
func (c *conn) grownBy(n int) []byte {
	out := c.grown()
	if len(out)+n <= cap(out) || cap(out) >= wideRoom {
		return out
	}
	if len(out)+n <= midRoom {
		c.out = append(mids.Get().(*[midRoom]byte)[:0], out...)
	} else {
		c.out = append(wides.Get().(*[wideRoom]byte)[:0], out...)
	}
	putOut(out)
	return c.out
}

func putOut(out []byte) {
	switch cap(out) {
	case outRoom:
		outs.Put((*[outRoom]byte)(out[:outRoom]))
	case midRoom:
		mids.Put((*[midRoom]byte)(out[:midRoom]))
	case wideRoom:
		wides.Put((*[wideRoom]byte)(out[:wideRoom]))
	}
}

// gathered is the writer of the header encoder. The caller holds mu.
type gathered struct{ c *conn }

func (g gathered) Write(p []byte) (int, error) {
	g.c.out = append(g.c.out, p...)
	return len(p), nil
}

// countControl counts a response that is not a handler's. It makes the reading goroutine end a connection whose client causes such responses and
// does not read. The caller holds mu.
func (c *conn) countControl() {
	if c.control++; c.control > controlMost {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// write sends out and then data. Only the goroutine that has set writing calls it, without mu.
func (c *conn) write(out, data []byte) error {
	if c.below != nil && len(out)+len(data) > minFrame {
		c.below.Cork()
		defer c.below.Uncork() // later writes and reads return its error
	}
	if len(out) > 0 {
		if _, err := c.nc.Write(out); err != nil {
			return err
		}
	}
	if len(data) > 0 {
		if _, err := c.nc.Write(data); err != nil {
			return err
		}
	}
	return nil
}

// send writes conn.out, and then data. The caller holds mu, which send releases meanwhile, and has set writing.
func (c *conn) send(data []byte) {
	out := c.out
	c.out, c.control = nil, 0
	c.writes++
	if c.err != nil {
		return
	}
	c.mu.Unlock()
	err := c.write(out, data)
	if out != nil {
		putOut(out)
	}
	c.mu.Lock()
	if err != nil && c.err == nil {
		c.err = err
		go c.cut()
	}
}

// cut closes the connection, so that reading ends, and with it every waiting writer.
func (c *conn) cut() { _ = c.nc.Close() }

// hurry ends a connection whose client takes nothing of a write for writeMost: otherwise the writing handler, which may be that of an ended stream,
// would be stuck for as long as the client likes. It is called when a stream ends, or waits only for its response to be sent (refuse); the deadline
// of other writes is their handlers' business (SetWriteDeadline). The caller holds mu.
func (c *conn) hurry() { c.hurryWithin(c.srv.writeMost) }

func (c *conn) hurryWithin(most time.Duration) {
	if !c.writing && len(c.out) == 0 || c.ended {
		return
	}
	until := time.Now().Add(most)
	if c.hurried != nil {
		if !until.Before(c.hurriedAt) {
			return
		}
		c.hurried.Stop()
	}
	begun := c.writes
	var timer *time.Timer
	timer = time.AfterFunc(most, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.hurried != timer {
			return // a shorter limit applies by now
		}
		switch c.hurried = nil; {
		case !c.writing:
		case c.writes == begun:
			go c.cut()
		default: // the current write may be stuck as well
			c.hurryWithin(most)
		}
	})
	c.hurried, c.hurriedAt = timer, until
}

// flush sends conn.out, unless another goroutine is sending, which will do it then. Handlers that also have something to send and only wait for a
// processor, such as watches of the same event, run first: their output is sent together. The caller holds mu.
func (c *conn) flush() {
	if c.writing || len(c.out) == 0 {
		return
	}
	c.writing = true
	if c.handlers > 1 && len(c.out) < copyMost {
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.release()
}

// flush is conn.flush for the output of the stream. For a Continued it sets a limit, because a client that reads nothing would block the steps of
// others, and no other deadline applies. The caller holds conn.mu.
func (st *stream) flush() {
	if c := st.c; st.next != nil && !c.writing {
		c.hurryWithin(c.stall)
	}
	st.c.flush()
}

// flushSoon is flush for the reading goroutine, which must not wait for the client. The caller holds mu.
func (c *conn) flushSoon() {
	if c.writing || len(c.out) == 0 {
		return
	}
	c.writing = true
	go c.sendRest()
}

func (c *conn) sendRest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release()
}

// release lets others write. It first sends what they have buffered meanwhile, unless a stream waits for its turn, which will send it. The caller
// holds mu, and has set writing.
func (c *conn) release() {
	for round := 0; len(c.out) > 0 && c.err == nil && len(c.turns) == 0; round++ {
		if round == mostRounds {
			go c.sendRest()
			return
		}
		c.send(nil)
	}
	if len(c.turns) == 0 {
		c.writing = false
		return
	}
	next := c.turns[0]
	c.turns[0] = nil
	c.turns = c.turns[1:]
	next.turn = true
	next.changed.Broadcast()
}

// acquire waits for the turn of st to write, and sets writing, except after an error. The caller holds mu.
func (c *conn) acquire(st *stream) error {
	switch {
	case st.closed:
		return st.err
	case c.err != nil:
		return c.err
	case !c.writing:
		c.writing = true
		if st.next != nil {
			c.hurryWithin(c.stall)
		}
		return nil
	}
	c.turns = append(c.turns, st)
	st.stalls()
	for !st.turn && !st.closed {
		st.changed.Wait()
	}
	if !st.turn {
		c.turns = without(c.turns, st)
		return st.err
	}
	st.turn = false
	if st.closed || c.err != nil {
		c.release()
		if st.closed {
			return st.err
		}
		return c.err
	}
	return nil
}

// waitForRoom waits until conn.out has room. The caller holds mu.
func (c *conn) waitForRoom(st *stream) error {
	for len(c.out) >= outMost && !st.closed {
		if err := c.acquire(st); err != nil {
			return err
		}
		c.send(nil)
		c.release()
	}
	switch {
	case st.closed:
		return st.err
	case c.err != nil:
		return c.err
	}
	return nil
}

func without(list []*stream, st *stream) []*stream {
	if i := slices.Index(list, st); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}
