package cork

import (
	"context"
	"crypto/tls"
	"net/http"

	"golang.org/x/net/http2"
)

// ConfigureHTTP2 makes s, whose listener is Listener's, serve HTTP/2 so that frames leave together.
//
// The HTTP/2 server collects frames in a buffer, and sends it when it is full or no frame is ready: it alone knows when that is, so no stream waits
// for another. But its buffer has 4 KiB, and each DATA frame of 16 KiB bypasses it, at the cost of a goroutine, two records (16 KiB, and the nine
// bytes by which the frame exceeds them) and two system calls. Here the buffer has the size of one write of a Conn (largeBuffers), and its records
// leave in one.
//
// The server is golang.org/x/net/http2's, of which net/http has a copy, because only there a caller can supply the connection.
func ConfigureHTTP2(s *http.Server) error {
	// Bodies that wait to be read stop no others, as in package h2.
	conf := &http2.Server{MaxUploadBufferPerStream: 256 << 10, MaxUploadBufferPerConnection: 100 * 256 << 10}
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

// baseContext is the context of a connection, which net/http passes to HTTP/2 servers as a method of the handler.
func baseContext(h http.Handler) context.Context {
	if h, ok := h.(interface{ BaseContext() context.Context }); ok {
		return h.BaseContext()
	}
	return context.Background()
}

// together is a TLS connection on which the records of a write leave together. It holds nothing back once Write returns. The HTTP/2 server never
// calls Write concurrently.
type together struct {
	*tls.Conn
	below *Conn
}

func (c *together) Write(p []byte) (int, error) {
	c.below.Cork()
	defer c.below.Uncork() // later writes and reads return its error
	return c.Conn.Write(p)
}
