//go:build !go1.27 || http2legacy

package cork

import (
	"bufio"
	"sync"
	_ "unsafe" // for go:linkname
)

// bufWriterPool is the pool of buffers in which the HTTP/2 server collects frames. There is no other way to change their size. If a version of
// golang.org/x/net lacks the variable, the linker reports it; if its meaning changes, TestFramesLeaveTogether fails.
//
//go:linkname bufWriterPool golang.org/x/net/http2.bufWriterPool
var bufWriterPool sync.Pool

// largeBuffers makes the buffers as large as one write of a Conn. A connection has a buffer only while there are frames in it.
var largeBuffers = sync.OnceFunc(func() {
	bufWriterPool.New = func() any { return bufio.NewWriterSize(nil, most) }
})
