package h2

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// outgoing describes how to send a field of a given name.
type outgoing struct {
	name string
	// once is set if the value differs in each response. Such a field is not added to the encoder's table (RFC 7541, 6.2.3), where it would
	// displace others.
	once bool
	// dropped is set if HTTP/2 forbids the field (RFC 9113, 8.2.2), or it is sent in another way.
	dropped bool
}

var outgoings = func() map[string]outgoing {
	m := map[string]outgoing{}
	for _, name := range []string{"Cache-Control", "Content-Encoding", "Content-Type", "Date", "Vary", "X-Content-Type-Options",
		"X-Kubernetes-Pf-Flowschema-Uid", "X-Kubernetes-Pf-Prioritylevel-Uid"} {
		m[name] = outgoing{name: strings.ToLower(name)}
	}
	for _, name := range []string{"Audit-Id", "Content-Length", "Etag", "Last-Modified", "Location", "Retry-After", "Warning"} {
		m[name] = outgoing{name: strings.ToLower(name), once: true}
	}
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		m[name] = outgoing{dropped: true}
	}
	return m
}()

// outgoingName returns how to send a field. A field with an invalid name is not sent, as in golang.org/x/net/http2.
func outgoingName(name string) outgoing {
	if known, ok := outgoings[name]; ok {
		return known
	}
	lower := strings.ToLower(name)
	return outgoing{name: lower, once: true, dropped: !validName(lower)}
}

// appendFields appends a header, without the fields named in skip.
func appendFields(fields []hpack.HeaderField, h http.Header, skip ...string) []hpack.HeaderField {
	for name, values := range h {
		to := outgoingName(name)
		if to.dropped || slices.Contains(skip, name) {
			continue
		}
		for _, value := range values {
			if httpguts.ValidHeaderFieldValue(value) {
				fields = append(fields, hpack.HeaderField{Name: to.name, Value: value, Sensitive: to.once})
			}
		}
	}
	return fields
}

// appendHeaders buffers a header block (RFC 9113, 4.3). Status 0 is for trailers. The caller holds mu.
func (c *conn) appendHeaders(id uint32, status int, fields []hpack.HeaderField, ends bool) {
	from := len(c.grown())
	c.out = append(c.out, make([]byte, frameHeader)...)
	if status != 0 {
		c.encode(hpack.HeaderField{Name: ":status", Value: statusText(status)})
	}
	for _, f := range fields {
		c.encode(f)
	}
	flags := http2.FlagHeadersEndHeaders
	if ends {
		flags |= http2.FlagHeadersEndStream
	}
	size := len(c.out) - from - frameHeader
	if size <= c.frameMost {
		putHead(c.out[from:], size, http2.FrameHeaders, flags, id)
		return
	}
	block := slices.Clone(c.out[from+frameHeader:])
	c.out = c.out[:from]
	flags &^= http2.FlagHeadersEndHeaders
	for typ := http2.FrameHeaders; len(block) > 0; typ = http2.FrameContinuation {
		n := min(len(block), c.frameMost)
		if n == len(block) {
			flags |= http2.FlagHeadersEndHeaders
		}
		c.out = append(appendHead(c.out, n, typ, flags, id), block[:n]...)
		block, flags = block[n:], 0
	}
}

// encode writes a field to the buffer of header blocks, which cannot fail.
func (c *conn) encode(f hpack.HeaderField) { _ = c.enc.WriteField(f) }

func statusText(code int) string {
	switch code {
	case http.StatusOK:
		return "200"
	case http.StatusCreated:
		return "201"
	}
	return strconv.Itoa(code)
}

// date returns the current time for the Date field (RFC 9110, 6.6.1), cached for a second.
func date(now time.Time) string {
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &dated{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}

type dated struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[dated]
