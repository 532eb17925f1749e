// Package liar simulates broken servers: a proxy between clients and a server behaves like one. It lies in one way, and often enough to be detected.
// This tests the whole checker: the clients that record answers, and the verifier.
//
//	proxy.go     the proxy, and its observations
//	lies.go      the ways to lie, and the rules that each breaks
//	streams.go   lies of watches
//	reads.go     lies of gets and lists
//	writes.go    lies of writes
package liar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rowlock/rowlock/e2e/checker/record"
)

// Proxy stands between the clients of one round and a server. It is an http.Handler.
type Proxy struct {
	lie    Lie
	server record.Target

	mu     sync.Mutex
	trying bool // a request is about to lie
	told   int  // lies told to clients
	// acked is the highest revision at which a write of an object was acknowledged, by its name; latest is the highest of all.
	acked  map[string]int64
	latest int64
	reads  map[string]*answer // the first answer to each read at most recent
	hidden string             // the value whose events are hidden from all watches
	first  *call              // a write that may happen again
}

// New returns a proxy for a server that tells a lie.
func New(lie Lie, server record.Target) *Proxy {
	return &Proxy{lie: lie, server: server, acked: map[string]int64{}, reads: map[string]*answer{}}
}

// Done says whether enough lies were told for one of them to be detected for sure.
func (p *Proxy) Done() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told >= p.lie.times
}

// Lied says whether any lie was told.
func (p *Proxy) Lied() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told > 0
}

// claim says whether the caller may try to lie; if so, it has to call settle. The caller holds mu.
func (p *Proxy) claim() bool {
	if p.trying || p.told >= p.lie.times {
		return false
	}
	p.trying = true
	return true
}

// tell is claim and settle at once, for a certain lie. The caller holds mu.
func (p *Proxy) tell() bool {
	if p.trying || p.told >= p.lie.times {
		return false
	}
	p.told++
	return true
}

// mayLie is claim for callers that do not hold mu.
func (p *Proxy) mayLie() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claim()
}

// settle ends a claim.
func (p *Proxy) settle(lied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trying = false
	if lied {
		p.told++
	}
}

// call is a request. name is that of the object, also of one that is being created.
type call struct {
	context.Context
	server      record.Target
	method      string
	path        string
	query       url.Values
	contentType string
	body        []byte
	name        string
}

// answer is the answer of the server, or of the liar.
type answer struct {
	code int
	body []byte
}

// object has the parsed fields of a body.
type object struct {
	Kind     string `json:"kind,omitempty"`
	Reason   string `json:"reason,omitempty"`
	Metadata struct {
		Name            string            `json:"name,omitempty"`
		ResourceVersion string            `json:"resourceVersion,omitempty"`
		Annotations     map[string]string `json:"annotations,omitempty"`
	} `json:"metadata"`
	Data  map[string]string `json:"data,omitempty"`
	Items []json.RawMessage `json:"items,omitempty"`
}

// read parses a body; the result for another body is empty.
func read(body []byte) (o object) {
	_ = json.Unmarshal(body, &o)
	return o
}

func (o *object) revision() int64 {
	revision, _ := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64)
	return revision
}

// changed returns a body with changed fields.
func changed(body []byte, change func(fields, metadata map[string]any)) []byte {
	fields := map[string]any{}
	if err := json.Unmarshal(body, &fields); err != nil {
		return body
	}
	metadata, _ := fields["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	change(fields, metadata)
	made, err := json.Marshal(fields)
	if err != nil {
		return body
	}
	return made
}

// withRevision returns a body with another resourceVersion.
func withRevision(body []byte, revision int64) []byte {
	return changed(body, func(_, metadata map[string]any) { metadata["resourceVersion"] = strconv.FormatInt(revision, 10) })
}

// send sends the request to the server.
func (c *call) send(client *http.Client) (*http.Response, error) {
	target := c.server.URL + c.path
	if len(c.query) > 0 {
		target += "?" + c.query.Encode()
	}
	r, err := http.NewRequestWithContext(c, c.method, target, bytes.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if len(c.body) > 0 {
		r.Header.Set("Content-Type", c.contentType)
	}
	return client.Do(r)
}

// do lets the server answer.
func (c *call) do() (*answer, error) {
	response, err := c.send(c.server.Client)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &answer{response.StatusCode, body}, err
}

// with is a call like this one with other parameters; an empty value removes one.
func (c *call) with(parameters map[string]string) *call {
	other := *c
	other.query = url.Values{}
	for name, values := range c.query {
		other.query[name] = slices.Clone(values)
	}
	for name, value := range parameters {
		if value == "" {
			other.query.Del(name)
		} else {
			other.query.Set(name, value)
		}
	}
	return &other
}

// lastName is the object with which a round ends: there are no lies about it, and all lies are seen before it.
const lastName = "zzz-end"

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	c := &call{Context: r.Context(), server: p.server, method: r.Method, path: r.URL.Path, query: r.URL.Query(), contentType: r.Header.Get("Content-Type"), body: body}
	_, name, about := strings.Cut(c.path, "/configmaps")
	if c.name = strings.TrimPrefix(name, "/"); c.name == "" {
		o := read(body)
		c.name = o.Metadata.Name
	}
	if c.query.Get("watch") == "true" {
		p.stream(w, c)
		return
	}
	a, err := p.answer(c, about && c.name != lastName)
	if err != nil {
		panic(http.ErrAbortHandler) // the client gets no answer, as the proxy got none
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body)
}

// answer answers a request other than a watch: with a lie, or as the server does.
func (p *Proxy) answer(c *call, mayLie bool) (*answer, error) {
	if mayLie && p.lie.answer != nil {
		if a, err := p.lie.answer(p, c); a != nil || err != nil {
			return a, err
		}
	}
	a, err := c.do()
	if err == nil && mayLie {
		p.note(c, a)
	}
	return a, err
}

// note remembers the server's answer.
func (p *Proxy) note(c *call, a *answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := read(a.body)
	switch {
	case a.code >= 300:
	case c.method == http.MethodGet:
		if key := c.path + "?" + c.query.Encode(); p.reads[key] == nil && c.query.Get("resourceVersion") == "" && c.query.Get("continue") == "" {
			p.reads[key] = a
		}
	case c.method != http.MethodDelete:
		p.acked[c.name] = max(p.acked[c.name], o.revision())
		p.latest = max(p.latest, o.revision())
	}
}

// status is a Status of failure.
func status(code int, reason string) *answer {
	return &answer{code, fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"code":%d}`, reason, code)}
}
