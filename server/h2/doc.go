// Package h2 is the server side of HTTP/2 (RFC 9113) for an http.Server.
//
// golang.org/x/net/http2 passes every frame and every request from goroutine to goroutine. Here a stream's handler writes its own frames, and the
// reading goroutine wakes only goroutines that wait for what it has read.
//
//	server.go    the hook into http.Server, graceful shutdown
//	conn.go      a connection: its beginning, its reading goroutine, its end
//	frame.go     reading and checking frames (RFC 9113, 6)
//	headers.go   header blocks (RFC 7541) and their limits
//	request.go   fields to an http.Request (8.3)
//	stream.go    streams and their states (5.1)
//	settings.go  SETTINGS, PING, WINDOW_UPDATE (6.5, 6.7, 6.9)
//	quiet_*.go   postponing the wake-up for received data
//	body.go      bodies of requests, and the flow control of received data (5.2)
//	write.go     turns to write to the connection, and the buffer of frames
//	send.go      DATA frames and the flow control of sent data
//	sequel.go    responses that outlive their handlers, in steps
//	limit.go     write deadlines of responses
//	response.go  the http.ResponseWriter
//	fields.go    headers and trailers of responses
//	calm.go      limits on frames without progress (10.5)
//	workers.go   goroutines of handlers
//
// Lock order: server.mu, then conn.mu. conn.mu guards everything in a connection that more than one goroutine uses, its streams included. It is
// never held during a read or a write of the connection.
//
// Invariants:
//   - One goroutine at a time writes to the connection: the one that has set conn.writing. Others get their turn in the order in which they
//     asked for it (conn.turns).
//   - Frames are in conn.out in the order in which they are sent; header blocks are encoded when they are put there, because the encoder's
//     table must change in that order. A goroutine that writes something else writes conn.out first.
//   - The reading goroutine never writes to the connection: a client that does not read could block it, and then nothing would notice that the
//     client resets a stream or disconnects.
//   - A closed stream is in no map and no queue, and nothing waits for it. Its handler may still run: running handlers are counted
//     separately, so that a client that resets its requests (CVE-2023-44487) gets no more of them than others.
//   - Steps of one response are made one at a time, and one is made after each wake during or after the previous step (Continued.again,
//     Continued.queued): no wake is lost.
//   - A handler that is writing to the connection when its stream is reset returns when the client reads or the connection ends: a write cannot
//     be interrupted otherwise. All other waiting goroutines return at once. Whatever else must be sent waits as well.
//   - Unsent and unread data of a connection are bounded: conn.out by outMost, responses to control frames by controlMost, bodies by the windows
//     granted to the client, header blocks by http.Server.MaxHeaderBytes.
package h2
