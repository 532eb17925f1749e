package h2

import (
	"context"
	"crypto/tls"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// Serve returns a handler for http.Server.TLSNextProto["h2"], where it makes s offer HTTP/2 in TLS. Shutdown of s lets connections end gracefully.
// Of s.HTTP2 it uses MaxConcurrentStreams (default 100, as kube-apiserver).
func Serve(s *http.Server) func(*http.Server, *tls.Conn, http.Handler) {
	srv := newServer(s)
	s.RegisterOnShutdown(srv.shutdown)
	return func(_ *http.Server, c *tls.Conn, h http.Handler) { srv.serveTLS(c, h) }
}

type server struct {
	http       *http.Server
	maxStreams int
	writeMost  time.Duration
	endMost    time.Duration
	work       workers

	serving sync.WaitGroup
	mu      sync.Mutex
	conns   map[*conn]struct{}
	ending  bool // Shutdown was called
}

func newServer(s *http.Server) *server {
	srv := &server{http: s, maxStreams: 100, writeMost: writeMost, endMost: endMost, conns: map[*conn]struct{}{}}
	if s.HTTP2 != nil && s.HTTP2.MaxConcurrentStreams > 0 {
		srv.maxStreams = s.HTTP2.MaxConcurrentStreams
	}
	return srv
}

// serveTLS serves a connection until it ends. The TLS version and cipher suite must conform to RFC 9113, 9.2.
func (s *server) serveTLS(tc *tls.Conn, h http.Handler) {
	state := tc.ConnectionState()
	ctx := context.Background()
	// net/http passes the connection's context as a method of the handler.
	if h, ok := h.(interface{ BaseContext() context.Context }); ok {
		ctx = h.BaseContext()
	}
	c := s.newConn(tc, ctx, h)
	c.tls = &state
	c.below, _ = tc.NetConn().(corker)
	if state.Version < tls.VersionTLS12 || state.Version == tls.VersionTLS12 && !goodCipher(state.CipherSuite) {
		c.out = appendGoAway(nil, 0, http2.ErrCodeInadequateSecurity)
		_ = c.write(c.out, nil) // it is closed in any case
		_ = tc.Close()
		return
	}
	c.serve()
}

// goodCipher tells whether a suite of TLS 1.2 is not prohibited by RFC 9113, Appendix A: it has an ephemeral key and an AEAD.
func goodCipher(id uint16) bool {
	return slices.Contains([]uint16{
		tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, tls.TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
		tls.TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256, tls.TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
	}, id)
}

// add reports whether the server is shutting down.
func (s *server) add(c *conn) (ending bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns[c] = struct{}{}
	s.serving.Add(1)
	s.work.keep(true)
	return s.ending
}

func (s *server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	s.serving.Done()
	if len(s.conns) == 0 {
		s.work.keep(false)
	}
}

// shutdown lets each connection end when its streams have ended, even one that has just begun.
func (s *server) shutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ending = true
	for c := range s.conns {
		c.mu.Lock()
		c.goAway(http2.ErrCodeNo)
		for _, st := range c.streams {
			if st.unhurried {
				st.limitWrites(time.Now().Add(s.writeMost))
			}
		}
		c.mu.Unlock()
	}
}

// setState calls the ConnState hook. net/http itself reports new and closed connections.
func (c *conn) setState(state http.ConnState) {
	if hook := c.srv.http.ConnState; hook != nil {
		hook(c.nc, state)
	}
}

func (c *conn) logf(format string, args ...any) {
	if l := c.srv.http.ErrorLog; l != nil {
		l.Printf(format, args...)
	}
}
