package h2

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// pseudo are the pseudo fields, in place of a request line (RFC 9113, 8.3.1).
type pseudo struct{ method, scheme, authority, path string }

// take removes the pseudo fields from fields. It reports whether each of them is known and unique.
func (p *pseudo) take(fields []hpack.HeaderField) (rest []hpack.HeaderField, ok bool) {
	var seen [4]bool
	for i, f := range fields {
		if !f.IsPseudo() {
			return fields[i:], true // headerReader.field rejects later ones
		}
		var at int
		switch f.Name {
		case ":method":
			at, p.method = 0, f.Value
		case ":scheme":
			at, p.scheme = 1, f.Value
		case ":authority":
			at, p.authority = 2, f.Value
		case ":path":
			at, p.path = 3, f.Value
		default:
			return nil, false
		}
		if seen[at] {
			return nil, false
		}
		seen[at] = true
	}
	return nil, true
}

// target is the URL of the request (8.3.1).
func (p *pseudo) target() (*url.URL, error) {
	if p.method == http.MethodConnect {
		if p.scheme != "" || p.path != "" || p.authority == "" {
			return nil, errPseudo
		}
		return &url.URL{Host: p.authority}, nil
	}
	if p.method == "" || p.scheme != "https" && p.scheme != "http" || p.path == "" || p.path[0] != '/' && p.path != "*" {
		return nil, errPseudo
	}
	if strings.ContainsRune(p.authority, '@') { // userinfo is not allowed here
		return nil, errPseudo
	}
	return url.ParseRequestURI(p.path)
}

// canonical are net/http's names of the fields that clients of Kubernetes send.
var canonical = func() map[string]string {
	m := map[string]string{}
	for _, name := range []string{"Accept", "Accept-Encoding", "Accept-Language", "Audit-Id", "Authorization", "Cache-Control", "Content-Encoding",
		"Content-Length", "Content-Type", "Cookie", "Date", "Expect", "Host", "If-Match", "If-Modified-Since", "If-None-Match", "Impersonate-Group",
		"Impersonate-Uid", "Impersonate-User", "Kubectl-Command", "Kubectl-Session", "Origin", "Priority", "Range", "Referer", "Te", "Traceparent",
		"Tracestate", "Trailer", "User-Agent", "X-Forwarded-For", "X-Remote-Group", "X-Remote-User", "X-Request-Id"} {
		m[strings.ToLower(name)] = name
	}
	return m
}()

func canonicalName(name string) string {
	if known, ok := canonical[name]; ok {
		return known
	}
	return http.CanonicalHeaderKey(name)
}

// headerOf converts fields to a header.
func headerOf(fields []hpack.HeaderField) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := canonicalName(f.Name)
		if known := h[name]; known != nil {
			h[name] = append(known, f.Value)
			continue
		}
		values[i] = f.Value
		h[name] = values[i : i+1 : i+1]
	}
	return h
}

// errMalformed says that a request is invalid (8.1.1).
var errMalformed = errors.New("malformed request")

// newRequest builds the request of a stream from the fields of the last block.
func (c *conn) newRequest(ctx context.Context, st *stream, ended bool) (*http.Request, error) {
	var p pseudo
	fields, ok := p.take(c.header.fields)
	if !ok {
		return nil, errMalformed
	}
	target, err := p.target()
	if err != nil {
		if !c.header.truncated || p.path != "" && p.method != "" {
			return nil, errMalformed
		}
		target = &url.URL{Path: "/"} // the path was truncated; the request is answered as too large
	}
	h := headerOf(fields)
	r := &http.Request{Method: p.method, URL: target, RequestURI: p.path, Proto: "HTTP/2.0", ProtoMajor: 2, Header: h, Host: p.authority,
		RemoteAddr: c.remote, Body: http.NoBody}
	if p.scheme == "https" {
		r.TLS = c.tls
	}
	if p.method == http.MethodConnect {
		r.RequestURI = p.authority
	}
	if r.Host == "" {
		r.Host = h.Get("Host")
	}
	if cookies := h["Cookie"]; len(cookies) > 1 { // split for better compression (8.2.3)
		h["Cookie"] = []string{strings.Join(cookies, "; ")}
	}
	r.Trailer = announced(h)
	if expect := h["Expect"]; expect != nil && httpguts.HeaderValuesContainsToken(expect, "100-continue") {
		delete(h, "Expect")
		st.body.sayContinue = true
	}
	st.body.declared = -1
	if n := contentLength(h); ended && n > 0 {
		return nil, errMalformed // 8.1.1
	}
	if !ended {
		r.ContentLength, r.Body = contentLength(h), requestBody{st}
		st.body.declared = r.ContentLength
	} else if st.body.sayContinue {
		r.Body = noBody{st}
	}
	return r.WithContext(ctx), nil
}

func contentLength(h http.Header) int64 {
	values, ok := h["Content-Length"]
	if !ok {
		return -1
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return 0 // as in golang.org/x/net/http2: then there must be no body
	}
	return int64(n)
}

// announced removes the Trailer field, and returns the trailers named there (RFC 9110, 6.6.2).
func announced(h http.Header) (trailers http.Header) {
	for _, value := range h["Trailer"] {
		for name := range strings.SplitSeq(value, ",") {
			name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name))
			switch name {
			case "Transfer-Encoding", "Trailer", "Content-Length": // forbidden
			default:
				if trailers == nil {
					trailers = http.Header{}
				}
				trailers[name] = nil
			}
		}
	}
	delete(h, "Trailer")
	return trailers
}

// refused returns the handler that rejects an unacceptable request; nil for others.
func (c *conn) refused(r *http.Request) http.HandlerFunc {
	if c.header.truncated {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8") // as golang.org/x/net/http2
			w.WriteHeader(http.StatusRequestHeaderFieldsTooLarge)
			_, _ = io.WriteString(w, "<h1>HTTP Error 431</h1><p>Request Header Field(s) Too Large</p>")
		}
	}
	// Reject fields about a connection (8.2.2).
	bad := ""
	for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade"} {
		if _, ok := r.Header[name]; ok {
			bad = "request header \"" + name + "\" is not valid in HTTP/2"
			break
		}
	}
	if te := r.Header["Te"]; bad == "" && (len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != "") {
		bad = `request header "TE" may only be "trailers" in HTTP/2`
	}
	if bad == "" {
		return nil
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, bad, http.StatusBadRequest)
	}
}

// readTrailers reads the trailers of a body (8.1). It does not use st.r, which a response that outlives its handler has dropped.
func (c *conn) readTrailers(st *stream) error {
	r := &c.header
	c.mu.Lock()
	defer c.mu.Unlock()
	if st.remoteClosed {
		return streamError{st.id, http2.ErrCodeStreamClosed} // 5.1
	}
	trailer := http.Header{}
	for _, f := range r.fields {
		name := canonicalName(f.Name)
		if f.IsPseudo() || st.announced && !httpguts.ValidTrailerHeader(name) { // trailers that were not announced reach no handler
			return streamError{st.id, http2.ErrCodeProtocol}
		}
		trailer[name] = append(trailer[name], f.Value)
	}
	if r.truncated || !r.ends {
		return streamError{st.id, http2.ErrCodeProtocol}
	}
	st.body.trailer = trailer
	st.remoteEnds()
	c.flushSoon()
	return nil
}
