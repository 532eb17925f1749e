package harness

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports are taken from this range. It lies below the one from which Linux by default takes the ports of connections, and of listeners that
// ask for any: a server that is started again at its port would find it taken by one of those now and then.
const (
	firstPort = 20000
	endPorts  = 32000
)

// givenPorts are those that this process was given: no two servers get the same, also before they listen.
var givenPorts struct {
	sync.Mutex
	ports map[int]bool
	// taken is a file of which this process locks the byte at each of its ports, until it ends. The tests of both databases run at once, and what
	// one of them stops and starts again at its port finds that taken by no other.
	taken *os.File
}

// FreePort returns a port of 127.0.0.1 at which nothing listens, and which no process that asks here was given and may still use.
func FreePort() (int, error) {
	g := &givenPorts
	g.Lock()
	defer g.Unlock()
	if g.taken == nil {
		name := filepath.Join(os.TempDir(), fmt.Sprintf("rowlock-tests-ports-%d", os.Getuid()))
		file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return 0, err
		}
		g.taken, g.ports = file, map[int]bool{}
	}
	const tries = 1000
	last := errors.New("all were given")
	for range tries {
		port := firstPort + rand.IntN(endPorts-firstPort)
		if g.ports[port] {
			continue
		}
		if last = takePort(g.taken, port); last == nil {
			g.ports[port] = true
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port of %d to %d in %d tries: %w", firstPort, endPorts-1, tries, last)
}

// takePort locks a port, and finds out that nothing listens there.
func takePort(taken *os.File, port int) error {
	lock := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: int64(port), Len: 1}
	if err := unix.FcntlFlock(taken.Fd(), unix.F_SETLK, &lock); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
	if err != nil {
		return err
	}
	return listener.Close()
}

func freePorts(n int) (ports []int, err error) {
	for len(ports) < n {
		port, err := FreePort()
		if err != nil {
			return nil, err
		}
		ports = append(ports, port)
	}
	return ports, nil
}
