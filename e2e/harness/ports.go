package harness

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from this range. It lies below the one from which Linux by default takes the ports of connections, and of listeners that
// ask for any: a server that is started again at its port would find it taken by one of those now and then.
const (
	firstPort = 20000
	endPorts  = 32000
)

// givenPorts are those that this process was given: no two servers get the same, also before they listen.
var givenPorts sync.Map

// FreePort returns a port of 127.0.0.1 at which nothing listens, and which it has not returned before.
func FreePort() (int, error) {
	const tries = 1000
	last := errors.New("all were given")
	for range tries {
		port := firstPort + rand.IntN(endPorts-firstPort)
		if _, given := givenPorts.Load(port); given {
			continue
		}
		listener, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}
		if _, given := givenPorts.LoadOrStore(port, true); !given {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port of %d to %d in %d tries: %w", firstPort, endPorts-1, tries, last)
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
