// Package liar makes liars of servers: a proxy between clients and a server does what a broken server would. It lies in one way, and often
// enough to be found out. So the whole checker is tested: clients that record what they are told, and the verifier.
//
//	proxy.go     the proxy, and what it has seen
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
	trying bool // somebody is about to lie
	told   int  // lies that clients have been told
	// acked is the highest revision at which a write of an object was acknowledged, by its name; latest is the one of all.
	acked  map[string]int64
	latest int64
	reads  map[string]*answer // the first answer to each read that asked for what is most recent
	hidden string             // the value that no watch is told of
	first  *call              // a write that may happen again
}

// New returns a proxy that lies in a way about a server.
func New(lie Lie, server record.Target) *Proxy {
	return &Proxy{lie: lie, server: server, acked: map[string]int64{}, reads: map[string]*answer{}}
}

// Done says whether as many lies were told as are needed for one of them to be found out for sure.
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

// claim says whether the caller may try to lie, and is to call settle then. The caller holds mu.
func (p *Proxy) claim() bool {
	if p.trying || p.told >= p.lie.times {
		return false
	}
	p.trying = true
	return true
}

// tell is claim and settle at once, for what is certain to be a lie. The caller holds mu.
func (p *Proxy) tell() bool {
	if p.trying || p.told >= p.lie.times {
		return false
	}
	p.told++
	return true
}

// mayLie is claim for those who do not hold mu.
func (p *Proxy) mayLie() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.claim()
}

// settle ends what claim began.
func (p *Proxy) settle(lied bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trying = false
	if lied {
		p.told++
	}
}

// call is a request. name is that of the object, also of one that is created.
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

// answer is what the server, or the liar, says to it.
type answer struct {
	code int
	body []byte
}

// object is what is read of a body.
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

// read reads a body; what is none is empty.
func read(body []byte) (o object) {
	_ = json.Unmarshal(body, &o)
	return o
}

func (o *object) revision() int64 {
	revision, _ := strconv.ParseInt(o.Metadata.ResourceVersion, 10, 64)
	return revision
}

// changed is a body after a change of its fields.
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

// withRevision is a body with another resourceVersion.
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

// do has the server answer.
func (c *call) do() (*answer, error) {
	response, err := c.send(c.server.Client)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return &answer{response.StatusCode, body}, err
}

// with is a call like this one, with parameters that are others; an empty value is none.
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

// lastName is the object with which a round ends: there are no lies about it, and whatever was lied of is seen before it.
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
		panic(http.ErrAbortHandler) // the client has no answer, as the proxy has none
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body)
}

// answer answers what is no watch: with a lie, or as the server does.
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

// note remembers what the server has said.
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

// status is a refusal.
func status(code int, reason string) *answer {
	return &answer{code, fmt.Appendf(nil, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":%q,"code":%d}`, reason, code)}
}
