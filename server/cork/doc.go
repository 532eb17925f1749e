// Package cork lets the parts of a response leave in one write of the connection below TLS.
//
// crypto/tls writes each record, of 16 KiB at most, with a system call of its own, and net/http adds the header of a response and the ends of
// chunks as small ones: a list is a thousand writes, an event five. Each of them passes the TCP stack and wakes the reader, which costs more than
// encryption.
//
// A handler may Cork an HTTP/1.1 connection, which carries one response at a time. On an HTTP/2 connection, corking for one stream would delay the
// others, and its own window updates. There the HTTP/2 server decides, because it knows when nothing is left to send (http2.go).
//
//	cork.go           Conn and Listener
//	http2.go          the frames of HTTP/2
//	buffers.go        the buffers of golang.org/x/net's server
//	buffers_go127.go  for a server inside net/http
package cork
