package pgtest

import (
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// Cutter stands between a server and its database and breaks one connection, instead of passing a message of the server
// on, or the answer to it.
type Cutter struct {
	dir, target string
	listener    net.Listener
	work        sync.WaitGroup
	left        atomic.Int64
	answers     atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]bool
}

// NewCutter stands before a cluster. It breaks nothing until it is told to. Close ends it.
func NewCutter(c *Cluster) (*Cutter, error) {
	dir, err := os.MkdirTemp("/tmp", "rowlock-cut") // short: a socket's path has at most 107 bytes
	if err != nil {
		return nil, err
	}
	const socket = ".s.PGSQL.5432"
	k := &Cutter{dir: dir, target: filepath.Join(c.dir, socket), conns: map[net.Conn]bool{}}
	k.left.Store(-1)
	if k.listener, err = net.Listen("unix", filepath.Join(dir, socket)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	k.work.Go(k.accept)
	return k, nil
}

// URL is the datastore of the cluster, by way of the cutter.
func (k *Cutter) URL() string {
	return "postgres:///postgres?user=postgres&host=" + url.QueryEscape(k.dir)
}

// After lets so many messages of all connections together pass, and then breaks the connection of the next one: before the
// message arrives, or, with answered, before its answer does.
func (k *Cutter) After(messages int64, answered bool) {
	k.answers.Store(answered)
	k.left.Store(messages)
}

// Cut reports whether a connection was broken since After was called.
func (k *Cutter) Cut() bool { return k.left.Load() < 0 }

// Close ends the cutter and all connections through it.
func (k *Cutter) Close() error {
	err := k.listener.Close()
	k.mu.Lock()
	for c := range k.conns {
		c.Close()
	}
	k.mu.Unlock()
	k.work.Wait()
	return errors.Join(err, os.RemoveAll(k.dir))
}

func (k *Cutter) accept() {
	for {
		client, err := k.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", k.target)
		if err != nil {
			client.Close()
			continue
		}
		k.mu.Lock()
		k.conns[client], k.conns[server] = true, true
		k.mu.Unlock()
		var cut atomic.Bool
		k.work.Go(func() { k.forward(client, server, &cut, true) })
		k.work.Go(func() { k.forward(server, client, &cut, false) })
	}
}

// forward passes on what one side sends. cut says that the connection is to end with the next answer.
func (k *Cutter) forward(from, to net.Conn, cut *atomic.Bool, counted bool) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !counted && cut.Load() {
			return
		}
		if counted && k.left.Load() >= 0 && k.left.Add(-1) < 0 {
			if !k.answers.Load() {
				return
			}
			cut.Store(true)
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
