// Package cork lets the parts of an answer leave in one write of the connection below TLS.
//
// crypto/tls writes each record, of 16 KiB at most, by a system call of its own, and net/http adds the header of an answer
// and the ends of chunks as small ones: a list is a thousand writes, an event five. Each of them passes the TCP stack and
// wakes the reader, which costs more than to encrypt it.
//
// A handler may Cork an HTTP/1.1 connection, which has one answer at a time. On an HTTP/2 connection what one stream holds
// back would be missing to the others, its own window updates among it; there the HTTP/2 server decides, which knows when
// there is nothing left to send (http2.go).
//
//	cork.go           Conn and Listener
//	http2.go          the frames of HTTP/2
//	buffers.go        the buffers of golang.org/x/net's server
//	buffers_go127.go  where it is inside net/http
package cork
