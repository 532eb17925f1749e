package cork

import (
	"context"
	"crypto/tls"
	"net/http"

	"golang.org/x/net/http2"
)

// ConfigureHTTP2 lets s, whose listener is Listener's, answer HTTP/2 so that frames leave together.
//
// The HTTP/2 server collects frames in a buffer and sends it when it is full, or when there is no frame left that can be
// sent: it alone knows when that is, so no stream waits for another. But its buffer is of 4 KiB, and each DATA frame of 16 KiB
// passes it by: a goroutine, two records (16 KiB and the nine bytes by which the frame exceeds them) and two system calls for
// each. Here the buffer holds what a Conn sends in one write (largeBuffers), and its records leave in one.
//
// It is golang.org/x/net/http2's server, of which net/http has a copy, because only there the connection can be given from
// outside.
func ConfigureHTTP2(s *http.Server) error {
	conf := &http2.Server{}
	if err := http2.ConfigureServer(s, conf); err != nil {
		return err
	}
	largeBuffers()
	s.TLSNextProto[http2.NextProtoTLS] = func(hs *http.Server, c *tls.Conn, h http.Handler) {
		opts := &http2.ServeConnOpts{Context: baseContext(h), Handler: h, BaseConfig: hs}
		if below, ok := c.NetConn().(*Conn); ok {
			conf.ServeConn(&together{c, below}, opts)
			return
		}
		conf.ServeConn(c, opts)
	}
	return nil
}

// baseContext is the context of a connection, which net/http hands to HTTP/2 servers as a method of the handler.
func baseContext(h http.Handler) context.Context {
	if h, ok := h.(interface{ BaseContext() context.Context }); ok {
		return h.BaseContext()
	}
	return context.Background()
}

// together is a TLS connection on which the records of a write leave together. It holds nothing back once Write returns. The
// HTTP/2 server calls Write from one goroutine at a time.
type together struct {
	*tls.Conn
	below *Conn
}

func (c *together) Write(p []byte) (int, error) {
	c.below.Cork()
	defer c.below.Uncork() // its error is that of the next write, and of reading
	return c.Conn.Write(p)
}
