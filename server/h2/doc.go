// Package h2 is the server side of HTTP/2 (RFC 9113) for an http.Server.
//
// golang.org/x/net/http2 hands every frame and every request from goroutine to goroutine. Here a stream's handler writes its
// own frames, and the goroutine that reads wakes nobody who does not wait for what it read.
//
//	server.go    the hook into http.Server, graceful shutdown
//	conn.go      a connection: its beginning, its reading goroutine, its end
//	frame.go     frames as they are read, each with its checks (RFC 9113, 6)
//	headers.go   header blocks (RFC 7541) and their limits
//	request.go   fields to an http.Request (8.3)
//	stream.go    streams and their states (5.1)
//	settings.go  SETTINGS, PING, WINDOW_UPDATE (6.5, 6.7, 6.9)
//	quiet_*.go   what comes in and can wait
//	body.go      bodies of requests, and the flow control of what is received (5.2)
//	write.go     who writes to the connection, and what is gathered for it
//	send.go      DATA frames and the flow control of what is sent
//	sequel.go    answers that go on without their handlers, in steps
//	limit.go     when an answer has to be sent by
//	response.go  the http.ResponseWriter
//	fields.go    headers and trailers of answers
//	calm.go      how much a client may ask for without getting on (10.5)
//	workers.go   goroutines of handlers
//
// Lock order: server.mu, then conn.mu. conn.mu guards all of a connection that more than one goroutine uses, its streams among
// it. It is never held during a read or a write of the connection.
//
// Invariants:
//   - One goroutine at a time writes to the connection: who has set conn.writing. It is handed on in the order in which others
//     asked for it (conn.turns).
//   - Frames are in conn.out in the order in which they leave; header blocks are encoded when they are put there, because the
//     encoder's table has to change in that order. Whoever writes something else writes conn.out first.
//   - The reading goroutine never writes to the connection: a client that does not read could keep it, and then nobody would
//     see that the client resets a stream or is gone.
//   - A closed stream is in no map and no queue, and nobody waits for it. Its handler may still run: handlers are counted by
//     themselves, so that a client that resets what it asks for (CVE-2023-44487) has no more of them than others.
//   - Steps of one answer are made one at a time, and one is made after each wake that came while or since the last was begun
//     (Continued.again, Continued.queued): nobody who has something to send is forgotten.
//   - A handler that is writing to the connection when its stream is reset returns when the client reads, or the connection ends:
//     there is no other way to interrupt a write. All others who wait return at once. What else has to be sent waits as well.
//   - What is not yet sent or not yet read of a connection is bounded: conn.out by outMost and the answers to control frames
//     by controlMost, bodies by the windows that the client was given, header blocks by http.Server.MaxHeaderBytes.
package h2
