//go:build !go1.27 || http2legacy

package cork

import (
	"bufio"
	"sync"
	_ "unsafe" // for go:linkname
)

// The pool of the buffers in which the HTTP/2 server collects frames. Nothing else gives them another size. If a version of
// golang.org/x/net has no such variable the linker says so, and if it means something else TestFramesLeaveTogether does.
//
//go:linkname bufWriterPool golang.org/x/net/http2.bufWriterPool
var bufWriterPool sync.Pool

// largeBuffers makes the buffers as large as what a Conn sends in one write. A connection has one only while there are
// frames in it.
var largeBuffers = sync.OnceFunc(func() {
	bufWriterPool.New = func() any { return bufio.NewWriterSize(nil, most) }
})
