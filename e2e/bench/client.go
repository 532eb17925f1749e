package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/client-go/rest"
)

// requestTimeout is after how long a request counts as failed.
const requestTimeout = 60 * time.Second

// client is one client of the server, on a connection that it may share with others. It is used by one goroutine at a time.
type client struct {
	base  string
	token string
	http  *http.Client
	body  bytes.Buffer // of the last response, when asked to keep it
	chunk []byte
}

// newConnection returns a connection to the server, with the credentials of config. It is opened by its first request.
func newConnection(config *rest.Config, p protocol) (*http.Client, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(p == http1)
	protocols.SetHTTP2(p == http2)
	transport := &http.Transport{
		TLSClientConfig:     tlsConfig,
		Protocols:           protocols,
		MaxIdleConnsPerHost: 1,
		DisableCompression:  true, // loopback is faster than gzip, and lists would measure only gzip
		ReadBufferSize:      64 << 10,
		WriteBufferSize:     16 << 10,
	}
	return &http.Client{Transport: transport}, nil
}

// request is one request to the API.
type request struct {
	method      string
	path        string
	accept      string // empty: JSON
	contentType string // empty: JSON
	encoding    string // Accept-Encoding; the answer is not decompressed
	body        []byte
	keep        bool // keep the response in client.body, else read and discard it
}

// do sends the request, reads the whole response and returns its size in bytes. A status other than 2xx is an error.
func (c *client) do(ctx context.Context, r request) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	response, err := c.open(ctx, r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	if r.keep {
		c.body.Reset()
		return c.body.ReadFrom(response.Body)
	}
	return c.discard(response.Body)
}

// open sends the request and returns the response with its body unread, for do and for watches. A status other than
// 2xx is an error.
func (c *client) open(ctx context.Context, r request) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, bytes.NewReader(r.body))
	if err != nil {
		return nil, err
	}
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	q.Header.Set("Accept", "application/json")
	if r.accept != "" {
		q.Header.Set("Accept", r.accept)
	}
	if r.encoding != "" {
		q.Header.Set("Accept-Encoding", r.encoding)
	}
	if r.body != nil {
		q.Header.Set("Content-Type", "application/json")
	}
	if r.contentType != "" {
		q.Header.Set("Content-Type", r.contentType)
	}
	response, err := c.http.Do(q)
	if err != nil {
		return nil, err
	}
	if response.StatusCode/100 != 2 {
		defer response.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return nil, &statusError{response.StatusCode, string(text)}
	}
	return response, nil
}

// statusError is an answer other than 2xx.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return fmt.Sprintf("%d: %s", e.code, e.text) }

// discard reads to the end in pieces large enough for a list of many megabytes.
func (c *client) discard(body io.Reader) (int64, error) {
	if c.chunk == nil {
		c.chunk = make([]byte, 64<<10)
	}
	var total int64
	for {
		n, err := body.Read(c.chunk)
		total += int64(n)
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}

// connect makes sure that the client's connection is open, so that no handshake is measured.
func (c *client) connect(ctx context.Context) error {
	_, err := c.do(ctx, request{method: http.MethodGet, path: "/version"})
	return err
}
