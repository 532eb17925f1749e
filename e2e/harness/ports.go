package harness

import (
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
)

// Ports are taken from this range. It lies below the one from which Linux by default takes the ports of connections, and of listeners on port 0:
// otherwise a server that is started again would now and then find its port taken by one of those.
const (
	firstPort = 20000
	endPorts  = 32000
)

// givenPorts hold the ports that this process was given, by UDP, which no server uses. So no two servers get the same, also before they listen and
// while they are down, in any test process. End-to-end tests on one database run beside those on the other. The kernel frees them.
var givenPorts struct {
	sync.Mutex
	held []net.PacketConn
}

// FreePort returns a port of 127.0.0.1 without a listener, which neither this process nor another running one was given.
func FreePort() (int, error) {
	const tries = 1000
	var last error
	for range tries {
		port := firstPort + rand.IntN(endPorts-firstPort)
		address := fmt.Sprint("127.0.0.1:", port)
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			last = err
			continue
		}
		listener, err := net.Listen("tcp", address)
		if err != nil {
			held.Close()
			last = err
			continue
		}
		if err := listener.Close(); err != nil {
			return 0, fmt.Errorf("free port: %w", err)
		}
		givenPorts.Lock()
		defer givenPorts.Unlock()
		givenPorts.held = append(givenPorts.held, held)
		return port, nil
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
