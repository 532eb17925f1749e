package h2

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

const (
	// outMost is how much is gathered to be sent before who adds to it has to wait, in bytes.
	outMost = 128 << 10
	// controlMost is how many answers to control frames may wait for a client to read them.
	controlMost = 10000
	// outRoom is how large a buffer is at first, and wideRoom how large one is in which streams of many watches gather what they send of one
	// event: it takes outMost, and what a stream adds then. Between them is midRoom: of many connections whose clients read nothing, each keeps
	// what it has gathered, and most have little.
	outRoom, midRoom, wideRoom = 32 << 10, 64 << 10, outMost + 2*copyMost
	// writeMost is how long a client may take to read up to largeRoom and outMost bytes, once somebody waits for it to.
	writeMost = 30 * time.Second
	// mostRounds is how often somebody sends what others gather meanwhile, before a goroutine does.
	mostRounds = 16
)

// corker is a connection below TLS on which the records of a write can be held together.
type corker interface {
	Cork()
	Uncork()
}

var (
	outs  = sync.Pool{New: func() any { return new([outRoom]byte) }}
	mids  = sync.Pool{New: func() any { return new([midRoom]byte) }}
	wides = sync.Pool{New: func() any { return new([wideRoom]byte) }}
)

// grown is what was gathered, with room. The caller holds mu.
func (c *conn) grown() []byte {
	if c.out == nil {
		c.out = outs.Get().(*[outRoom]byte)[:0]
	}
	return c.out
}

// grownBy is grown, with room for n bytes more, up to wideRoom in all: to let append make it would leave garbage of several times what is sent.
// The caller holds mu.
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

// gathered is where the encoder of header blocks writes. The caller holds mu.
type gathered struct{ c *conn }

func (g gathered) Write(p []byte) (int, error) {
	g.c.out = append(g.c.out, p...)
	return len(p), nil
}

// countControl counts an answer that is not the handlers', and has the reading goroutine end a connection whose client asks for
// them and does not read. The caller holds mu.
func (c *conn) countControl() {
	if c.control++; c.control > controlMost {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0))
	}
}

// write sends out and then data. Only who has set writing calls it, without mu.
func (c *conn) write(out, data []byte) error {
	if c.below != nil && len(out)+len(data) > minFrame {
		c.below.Cork()
		defer c.below.Uncork() // its error is that of the next write, and of reading
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

// send writes what was gathered, and then data. The caller holds mu, which is not held meanwhile, and has set writing.
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

// cut lets the reading goroutine find that the connection is of no use. Whatever waits to write ends with it.
func (c *conn) cut() { _ = c.nc.Close() }

// hurry ends a connection whose client takes nothing of a write for writeMost: the handler that writes is stuck, which may be that
// of a stream that is over, and it would be so for as long as the client likes. It is called when a stream ends, or only waits for its
// answer to leave (refuse); how long another may take is its handler's to say (SetWriteDeadline). The caller holds mu.
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
			return // there is less time by now
		}
		switch c.hurried = nil; {
		case !c.writing:
		case c.writes == begun:
			go c.cut()
		default: // the one that is under way now may be stuck as well
			c.hurryWithin(most)
		}
	})
	c.hurried, c.hurriedAt = timer, until
}

// flush sends what was gathered, unless somebody is sending, who does it then. Handlers that have something to send as well
// and only wait for a processor, as those of watches that see the same event, come first: it leaves together. The caller holds
// mu.
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

// flush is conn.flush for what the stream sends. Who makes steps would wait for a client that takes nothing, and has none but this write to
// tell of it. The caller holds conn.mu.
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

// release lets others write. What they have gathered meanwhile is sent first, unless somebody waits for the turn, who does it
// then. The caller holds mu, and has set writing.
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

// acquire waits until it is the turn of st to write, and sets writing. After an error it has not. The caller holds mu.
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

// waitForRoom waits until what was gathered is not too much. The caller holds mu.
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
