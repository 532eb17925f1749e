package pgtest

import (
	"bytes"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Proxy is between servers and their database. It can break a connection instead of passing on a message of the server,
// or the answer to it. It can also be a network that loses everything: no data arrive, and neither end of a connection
// learns that the other is gone.
type Proxy struct {
	dir, target string
	listener    net.Listener
	work        sync.WaitGroup

	// commits is for how many more COMMITs the answer is to be lost.
	commits atomic.Int64

	// messages is how many messages of servers may still pass before a connection breaks; negative: any number. answers
	// makes it break before the answer, and not before the message.
	messages atomic.Int64
	answers  atomic.Bool

	answered atomic.Int64

	mu    sync.Mutex
	pairs map[*pair]bool
	lossy bool
}

// pair is a connection through the proxy.
type pair struct {
	*Proxy
	client, server net.Conn
	lost           atomic.Bool
	breaks         atomic.Bool  // with the next answer
	bytes          atomic.Int64 // that the client may still send before the pair is lost; negative: any number
}

// NewProxy starts a proxy in front of a cluster. At first it passes on everything. Close ends it.
func NewProxy(c *Cluster) (*Proxy, error) {
	dir, err := os.MkdirTemp("/tmp", "rowlock-px") // short: a socket's path has at most 107 bytes
	if err != nil {
		return nil, err
	}
	const socket = ".s.PGSQL.5432"
	p := &Proxy{dir: dir, target: filepath.Join(c.dir, socket), pairs: map[*pair]bool{}}
	p.messages.Store(-1)
	if p.listener, err = net.Listen("unix", filepath.Join(dir, socket)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p.work.Go(p.accept)
	return p, nil
}

// URL is the datastore of the cluster, through the proxy.
func (p *Proxy) URL() string {
	return "postgres:///postgres?user=postgres&host=" + url.QueryEscape(p.dir)
}

// BreakAfter lets so many messages of all connections together pass, and then breaks the connection of the next one:
// before the message arrives or, with answered, before its answer does.
func (p *Proxy) BreakAfter(messages int64, answered bool) {
	p.answers.Store(answered)
	p.messages.Store(messages)
}

// Broke reports whether a connection was broken since BreakAfter was called.
func (p *Proxy) Broke() bool { return p.messages.Load() < 0 }

// BreakAtCommit breaks the connection between COMMIT and its answer, the next so many times: the writes are committed,
// and their writer is not told. It returns how many breaks of the previous call have not happened yet.
func (p *Proxy) BreakAtCommit(times int64) (left int64) { return p.commits.Swap(times) }

// Lose makes all present and future connections lose everything.
func (p *Proxy) Lose() {
	p.mu.Lock()
	p.lossy = true
	p.mu.Unlock()
	p.each(func(c *pair) { c.lost.Store(true) })
}

// Recover lets new connections work. Lost ones stay half-open.
func (p *Proxy) Recover() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lossy = false
}

// LoseAfter lets every present connection send so many bytes, and then loses it.
func (p *Proxy) LoseAfter(bytes int64) {
	p.each(func(c *pair) { c.bytes.Store(bytes) })
}

// Answered returns how many bytes the database has sent to its servers, and the proxy has passed on.
func (p *Proxy) Answered() int64 { return p.answered.Load() }

// Close ends the proxy and all connections through it.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.each((*pair).close)
	p.work.Wait()
	return errors.Join(err, os.RemoveAll(p.dir))
}

func (p *Proxy) each(f func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		f(c)
	}
}

func (p *Proxy) accept() {
	defer p.each((*pair).close) // for a connection that came while the proxy was closed
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.target)
		if err != nil {
			client.Close()
			continue
		}
		c := &pair{Proxy: p, client: client, server: server}
		c.bytes.Store(-1)
		p.mu.Lock()
		c.lost.Store(p.lossy)
		p.pairs[c] = true
		p.mu.Unlock()
		p.work.Go(func() { c.forward(client, server, true) })
		p.work.Go(func() { c.forward(server, client, false) })
	}
}

// committed is the message CommandComplete of a COMMIT.
var committed = []byte("C\x00\x00\x00\x0bCOMMIT\x00")

// forward passes on the data of one side. asks: it is the client.
func (c *pair) forward(from, to net.Conn, asks bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if c.lost.Load() {
			if err != nil {
				return // neither side is told
			}
			continue
		}
		if err == nil && asks {
			n, err = c.question(n)
		} else if err == nil && (c.breaks.Load() || c.commits.Load() > 0 && bytes.Contains(buffer[:n], committed) && c.commits.Add(-1) >= 0) {
			err = net.ErrClosed
		}
		if err == nil {
			if !asks {
				c.answered.Add(int64(n))
			}
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			c.close()
			return
		}
	}
}

// question returns how much of a client's message passes; an error if the connection is to break instead.
func (c *pair) question(n int) (int, error) {
	if c.messages.Load() >= 0 && c.messages.Add(-1) < 0 {
		if !c.answers.Load() {
			return 0, net.ErrClosed
		}
		c.breaks.Store(true)
	}
	if left := c.bytes.Load(); left >= 0 {
		if int64(n) >= left {
			n = int(left)
			c.lost.Store(true)
		}
		c.bytes.Add(-int64(n))
	}
	return n, nil
}

func (c *pair) close() {
	c.client.Close()
	c.server.Close()
}
