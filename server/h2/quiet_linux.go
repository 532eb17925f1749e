package h2

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quietMost is how many bytes may arrive on a quiet connection before the kernel wakes the process.
const quietMost = 64 << 10

// quiet keeps the kernel from waking the process for small amounts of data, which it otherwise does for each packet, even if no goroutine is
// reading.
type quiet struct {
	raw   syscall.RawConn
	bytes int
	set   func(fd uintptr)
}

// newQuiet returns nil unless the connection is TCP.
func newQuiet(nc net.Conn) *quiet {
	for {
		below, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		nc = below.NetConn()
	}
	c, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	q := &quiet{raw: raw}
	q.set = func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, q.bytes) // a failure only makes it slower
	}
	return q
}

// on makes the connection quiet. It must not be read meanwhile.
func (q *quiet) on() { q.wakeFrom(quietMost) }

// off restores wake-ups; data that have arrived wake the process at once.
func (q *quiet) off() { q.wakeFrom(1) }

func (q *quiet) wakeFrom(bytes int) {
	if q == nil {
		return
	}
	q.bytes = bytes
	_ = q.raw.Control(q.set) // fails only for a closed connection
}

// pending tells whether the kernel has unread data.
func (q *quiet) pending() bool {
	if q == nil {
		return false
	}
	n := 0
	_ = q.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // a failure only lets it rest too early
	return n > 0
}
