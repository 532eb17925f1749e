package e2e

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"k8s.io/client-go/rest"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestHostileStreams begins handshakes, headers and bodies that it never ends, on many connections at once, over HTTP/1.1 and HTTP/2. The server
// answers others meanwhile, and ends everything that takes longer than a request may.
func TestHostileStreams(t *testing.T) {
	if database.url != "" {
		return // nothing of it reaches a database
	}
	server := startServer(t, harness.RowlockOptions{Args: []string{"--request-timeout", "2s"}})
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(server.URL, "https://")
	connect := func() net.Conn {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	before := resident(t, server.PIDs()[0], "VmRSS:")
	unfinished := map[string][]net.Conn{}
	for range 200 {
		c := connect()
		if _, err := c.Write([]byte("\x16\x03\x01\x02\x00\x01")); err != nil { // the beginning of a ClientHello
			t.Fatal(err)
		}
		unfinished["handshake"] = append(unfinished["handshake"], c)
		secure := tls.Client(connect(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
		if _, err := io.WriteString(secure, "GET /api HTTP/1.1\r\nHost: x\r\nX: "); err != nil {
			t.Fatal(err)
		}
		unfinished["headers"] = append(unfinished["headers"], secure)
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	unfinished["headers of HTTP/2"] = []net.Conn{unfinishedHeaders(t, connect(), secure, false)}
	unfinished["headers of HTTP/2 beside a watch"] = []net.Conn{unfinishedHeaders(t, connect(), secure, true)}
	var all sync.WaitGroup
	for _, http2 := range []bool{false, true} {
		client := clientOf(t, config, http2)
		for _, what := range []string{"POST " + configs, "PUT " + configs + "/a", "PATCH " + configs + "/kube-root-ca.crt", "DELETE " + configs, "DELETE " + configs + "/a"} {
			all.Go(func() { checkEndless(t, client, server.URL, what) })
		}
	}
	all.Wait()
	if grown := (resident(t, server.PIDs()[0], "VmRSS:") - before) >> 20; grown > 256 {
		t.Errorf("400 connections that say nothing and bodies that never end took %d MiB", grown)
	}
	if _, err := clientFor(t, server).Discovery().ServerVersion(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	for what, conns := range unfinished {
		for _, c := range conns {
			all.Go(func() {
				_ = c.SetReadDeadline(time.Now().Add(2 * time.Minute))
				if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("unfinished %s: the connection stays", what)
				}
			})
		}
	}
	all.Wait()
}

// unfinishedHeaders begins a header block that does not end, on a connection that may have a watch already.
func unfinishedHeaders(t *testing.T, below net.Conn, config *tls.Config, watches bool) net.Conn {
	t.Helper()
	config = config.Clone()
	config.InsecureSkipVerify, config.NextProtos = true, []string{"h2"}
	c := tls.Client(below, config)
	var block bytes.Buffer
	encoder, framer := hpack.NewEncoder(&block), http2.NewFramer(c, c)
	_, err := io.WriteString(c, http2.ClientPreface)
	err = errors.Join(err, framer.WriteSettings(), framer.WriteSettingsAck())
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: configs + "?watch=true"}} {
		err = errors.Join(err, encoder.WriteField(f))
	}
	if watches {
		err = errors.Join(err, framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}))
	}
	if err != nil {
		t.Fatal(err)
	}
	for id := uint32(0); watches && id != 1; {
		f, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		id = f.Header().StreamID
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3}); err != nil {
		t.Fatal(err)
	}
	return c
}

// clientOf is a client with connections of its own.
func clientOf(t *testing.T, config *rest.Config, http2 bool) *http.Client {
	t.Helper()
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	var protocols http.Protocols
	protocols.SetHTTP1(!http2)
	protocols.SetHTTP2(http2)
	transport := &http.Transport{TLSClientConfig: secure, Protocols: &protocols}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// checkEndless sends a body that stops in its middle: the request ends within its time, with an answer or without.
func checkEndless(t *testing.T, client *http.Client, server, what string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	body, sent := io.Pipe()
	defer body.Close()
	go func() { _, _ = io.WriteString(sent, `{"metadata":`) }()
	method, path, _ := strings.Cut(what, " ")
	q, err := http.NewRequestWithContext(ctx, method, server+path, body)
	if err != nil {
		t.Error(err)
		return
	}
	q.Header.Set("Content-Type", "application/merge-patch+json")
	if method != http.MethodPatch {
		q.Header.Set("Content-Type", "application/json")
	}
	answer, err := client.Do(q)
	if err == nil {
		defer answer.Body.Close()
		if answer.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%s: %s", what, answer.Status)
		}
	}
	if ctx.Err() != nil {
		t.Errorf("%s is not over: %v", what, err)
	}
}

// TestHostileReaders opens watches whose clients do not read, and writes objects that they watch: the server keeps the events once for all of them.
func TestHostileReaders(t *testing.T) {
	if database.url != "" {
		return // it is about the server's memory
	}
	server := startServer(t, harness.RowlockOptions{})
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	pid := server.PIDs()[0]
	client := clientOf(t, config, false)
	const watches, writes, size = 50, 40, 500 << 10
	for range watches {
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+configs+"?watch=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		if answer.StatusCode != http.StatusOK {
			t.Fatal(answer.Status)
		}
		if _, err := bufio.NewReaderSize(answer.Body, 16).Peek(1); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
	before := resident(t, pid, "VmHWM:")
	for i := range writes {
		write := sends("a write", "POST "+configs, http.StatusCreated).
			text(fmt.Sprintf(`{"metadata":{"name":"unread-%d"},"data":{"k":%q}}`, i, strings.Repeat("v", size)))
		if code, text := write.answer(t.Context(), t, client, server); code != write.code {
			t.Fatalf("write %d: %d: %s", i, code, text)
		}
	}
	// Each watch has events of 20 MiB, in all 1 GiB.
	grown := (resident(t, pid, "VmHWM:") - before) >> 20
	t.Logf("%d MiB", grown)
	if grown > 512 {
		t.Errorf("watches that nobody reads took %d MiB", grown)
	}
}
