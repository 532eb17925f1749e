package liar

import "net/http"

func (c *call) updates() bool { return c.method == http.MethodPut || c.method == http.MethodPatch }

// put is a write with the body of a creation, whether the object exists or not.
func (c *call) put() *call {
	other := *c
	other.method, other.path = http.MethodPut, c.path+"/"+c.name
	return &other
}

// hideWrite chooses a write that is hidden from all watches.
func hideWrite(p *Proxy, c *call) (*answer, error) {
	if c.method != http.MethodPut || !p.mayLie() {
		return nil, nil
	}
	p.mu.Lock()
	o := read(c.body)
	p.hidden = o.Data["v"]
	p.mu.Unlock()
	a, err := c.do()
	happened := err == nil && a.code == http.StatusOK
	if !happened {
		p.mu.Lock()
		p.hidden = ""
		p.mu.Unlock()
	}
	p.settle(happened)
	return a, err
}

// loseWrite acknowledges a write, with a new revision, that does not happen.
func loseWrite(p *Proxy, c *call) (*answer, error) {
	if !c.updates() || !p.mayLie() {
		return nil, nil
	}
	a, err := c.with(map[string]string{"dryRun": "All"}).do()
	if err != nil || a.code != http.StatusOK {
		p.settle(false)
		return nil, err
	}
	revision, err := p.newRevision(c)
	p.settle(err == nil && revision > 0)
	a.body = withRevision(a.body, revision)
	return a, err
}

// newRevision is a revision that no object of the round has: an object elsewhere has it.
func (p *Proxy) newRevision(c *call) (int64, error) {
	elsewhere := &call{Context: c, server: c.server, method: http.MethodPost, path: "/api/v1/namespaces/default/configmaps", contentType: "application/json",
		body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"elsewhere-"}}`)}
	a, err := elsewhere.do()
	if err != nil {
		return 0, err
	}
	o := read(a.body)
	return o.revision(), nil
}

// loseDeletion acknowledges a deletion that does not happen.
func loseDeletion(p *Proxy, c *call) (*answer, error) {
	if c.method != http.MethodDelete || !p.mayLie() {
		return nil, nil
	}
	dry := *c
	dry.body = changed(c.body, func(fields, _ map[string]any) { fields["dryRun"] = []string{"All"} }) // options in a body override those of the query
	a, err := dry.do()
	p.settle(err == nil && a.code == http.StatusOK)
	return a, err
}

// ignorePrecondition overwrites an object that has changed since its writer saw it.
func ignorePrecondition(p *Proxy, c *call) (*answer, error) {
	sent := read(c.body)
	p.mu.Lock()
	changedSince := c.method == http.MethodPut && sent.revision() > 0 && sent.revision() < p.acked[c.name] && p.claim()
	p.mu.Unlock()
	if !changedSince {
		return nil, nil
	}
	without := *c
	without.body = changed(c.body, func(_, metadata map[string]any) { delete(metadata, "resourceVersion") })
	a, err := without.do()
	p.settle(err == nil && a.code == http.StatusOK)
	if err == nil {
		p.note(c, a)
	}
	return a, err
}

// overwrite creates an object, or overwrites an existing one.
func (p *Proxy) overwrite(c *call) (refused, over *answer, err error) {
	if refused, err = c.do(); err != nil {
		return nil, nil, err
	}
	o := read(refused.body)
	if refused.code == http.StatusConflict && o.Reason == "AlreadyExists" {
		over, err = c.put().do()
	}
	if over != nil && over.code != http.StatusOK { // it was deleted meanwhile
		over = nil
	}
	return refused, over, err
}

// writeRefused reports a refusal of a write that happens.
func writeRefused(p *Proxy, c *call) (*answer, error) {
	if c.method != http.MethodPost || !p.mayLie() {
		return nil, nil
	}
	refused, over, err := p.overwrite(c)
	p.settle(over != nil)
	return refused, err
}

// createOver reports the creation of an object that it overwrote.
func createOver(p *Proxy, c *call) (*answer, error) {
	if c.method != http.MethodPost || !p.mayLie() {
		return nil, nil
	}
	a, over, err := p.overwrite(c)
	if over != nil {
		a = &answer{http.StatusCreated, over.body}
	}
	p.settle(over != nil)
	return a, err
}

// writeAgain repeats an acknowledged write after another write of the object.
func writeAgain(p *Proxy, c *call) (*answer, error) {
	if !c.updates() {
		return nil, nil
	}
	a, err := c.do()
	if err != nil || a.code != http.StatusOK {
		return a, err
	}
	sent := read(c.body)
	p.mu.Lock()
	first := p.first
	again := first != nil && first.path == c.path && p.claim()
	if first == nil && c.method == http.MethodPut && sent.revision() == 0 {
		p.first = c
	}
	p.mu.Unlock()
	if again {
		twice := *first
		twice.Context = c
		b, err := twice.do()
		p.settle(err == nil && b.code == http.StatusOK)
	}
	return a, nil
}

// repeatRevision acknowledges a write at the revision of another one.
func repeatRevision(p *Proxy, c *call) (*answer, error) {
	if !c.updates() {
		return nil, nil
	}
	a, err := c.do()
	if err != nil || a.code != http.StatusOK {
		return a, err
	}
	p.mu.Lock()
	other := p.latest
	lies := other > 0 && p.acked[c.name] != other && p.claim()
	p.mu.Unlock()
	p.note(c, a)
	if lies {
		a.body = withRevision(a.body, other)
		p.settle(true)
	}
	return a, nil
}
