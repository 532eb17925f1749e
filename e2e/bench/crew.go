package main

import (
	"fmt"
	"net/http"
	"slices"
)

// protocol is the protocol of a connection.
type protocol string

const (
	http2 protocol = "HTTP/2"
	http1 protocol = "HTTP/1.1"
)

// protocols are the values of --protocol, in the order in which tables show them.
var protocols = map[string][]protocol{"h2": {http2}, "h1": {http1}, "both": {http2, http1}}

// checkProtocols reads the flag.
func (o *options) checkProtocols() error {
	known, ok := protocols[o.Protocol]
	if !ok {
		return fmt.Errorf("--protocol %q: it is h2, h1 or both", o.Protocol)
	}
	o.Protocols = known
	return nil
}

// Clients over HTTP/2 share a few connections, as the informers and workers of a controller manager do: four, or as many as are needed for each to
// have no more than streamsPerConnection streams. A client over HTTP/1.1 has a connection of its own.
const (
	fewConnections       = 4
	streamsPerConnection = 64
)

// connections is how many connections n clients have.
func connections(p protocol, n int) int {
	if p == http1 {
		return n
	}
	return max(min(n, fewConnections), (n+streamsPerConnection-1)/streamsPerConnection)
}

// crew returns n clients. Their connections stay open for later crews.
func (b *bench) crew(p protocol, n int) ([]*client, error) {
	return b.crewOver(p, n, connections(p, n))
}

// crewOver returns n clients that share the given number of connections.
func (b *bench) crewOver(p protocol, n, share int) ([]*client, error) {
	for len(b.opened[p]) < share {
		c, err := newConnection(b.config, p)
		if err != nil {
			return nil, err
		}
		if b.opened == nil {
			b.opened = map[protocol][]*http.Client{}
		}
		b.opened[p] = append(b.opened[p], c)
	}
	clients := make([]*client, n)
	for i := range clients {
		clients[i] = &client{base: b.config.Host, token: b.config.BearerToken, http: b.opened[p][i%share]}
	}
	return clients, nil
}

// hangUp closes all connections.
func (b *bench) hangUp() {
	for _, c := range slices.Concat(b.opened[http2], b.opened[http1]) {
		c.CloseIdleConnections()
	}
}
