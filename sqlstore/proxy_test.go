package sqlstore

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// proxy stands between a server and its database, and can be a network that loses everything: what is sent arrives
// nowhere, and no end of a connection is told that the other is gone.
type proxy struct {
	dir, target string
	listener    net.Listener
	wg          sync.WaitGroup

	mu    sync.Mutex
	pairs map[*pair]bool
	lossy bool
}

// pair is a connection through the proxy.
type pair struct {
	client, server net.Conn
	lost           atomic.Bool
	left           atomic.Int64 // bytes that the client may still send before the pair is lost; negative: any number
}

// newProxy stands before a cluster, whose socket is in a directory.
func newProxy(t *testing.T, socketDir string) *proxy {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "rowlock-px") // short: a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	const socket = ".s.PGSQL.5432"
	p := &proxy{dir: dir, target: filepath.Join(socketDir, socket), pairs: map[*pair]bool{}}
	if p.listener, err = net.Listen("unix", filepath.Join(dir, socket)); err != nil {
		t.Fatal(err)
	}
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		p.listener.Close()
		p.each((*pair).close)
		p.wg.Wait()
		os.RemoveAll(dir)
	})
	return p
}

func (p *proxy) url() string {
	return "postgres:///postgres?user=postgres&host=" + url.QueryEscape(p.dir)
}

func (p *proxy) accept() {
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
		c := &pair{client: client, server: server}
		c.left.Store(-1)
		p.mu.Lock()
		c.lost.Store(p.lossy)
		p.pairs[c] = true
		p.mu.Unlock()
		p.wg.Go(func() { c.forward(client, server, true) })
		p.wg.Go(func() { c.forward(server, client, false) })
	}
}

func (c *pair) forward(from, to net.Conn, counted bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if c.lost.Load() {
			if err != nil {
				return // nobody is told
			}
			continue
		}
		if err != nil {
			c.close()
			return
		}
		if left := c.left.Load(); counted && left >= 0 {
			if int64(n) >= left {
				n = int(left)
				c.lost.Store(true)
			}
			c.left.Add(-int64(n))
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			c.close()
			return
		}
	}
}

func (c *pair) close() {
	c.client.Close()
	c.server.Close()
}

func (p *proxy) each(f func(*pair)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		f(c)
	}
}

// lose makes every connection there is, and those that come, go nowhere.
func (p *proxy) lose() {
	p.mu.Lock()
	p.lossy = true
	p.mu.Unlock()
	p.each(func(c *pair) { c.lost.Store(true) })
}

// recover lets connections that come arrive. Those that were lost stay so, half-open.
func (p *proxy) recover() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lossy = false
}

// loseAfter lets every connection there is send so many bytes, and then loses it.
func (p *proxy) loseAfter(bytes int64) {
	p.each(func(c *pair) { c.left.Store(bytes) })
}
