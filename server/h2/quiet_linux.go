package h2

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// quietMost is how much may come in, in bytes, before the kernel says so on a quiet connection.
const quietMost = 64 << 10

// quiet has the kernel not wake the process for what little comes in on a connection, which it otherwise does for each packet,
// whether anybody reads or not.
type quiet struct {
	raw   syscall.RawConn
	bytes int
	set   func(fd uintptr)
}

// newQuiet returns nil when it is not known what is below the connection.
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
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, q.bytes) // it is only slower without
	}
	return q
}

// on makes the connection quiet. Nobody must read meanwhile.
func (q *quiet) on() { q.wakeFrom(quietMost) }

// off lets everything wake the process again, at once what has come already.
func (q *quiet) off() { q.wakeFrom(1) }

func (q *quiet) wakeFrom(bytes int) {
	if q == nil {
		return
	}
	q.bytes = bytes
	_ = q.raw.Control(q.set) // of a connection that is closed
}

// pending tells whether the kernel has something that was not read.
func (q *quiet) pending() bool {
	if q == nil {
		return false
	}
	n := 0
	_ = q.raw.Control(func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }) // it only rests too early
	return n > 0
}
