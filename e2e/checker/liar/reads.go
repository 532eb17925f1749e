package liar

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// mostRecent says whether a read is at most recent, without a limit or token.
func (c *call) mostRecent() bool {
	return c.method == http.MethodGet && !c.query.Has("resourceVersion") && !c.query.Has("limit") && !c.query.Has("continue")
}

func (c *call) lists() bool { return c.method == http.MethodGet && c.name == "" }

// kept is the first answer to the same read, or nil. The caller holds mu.
func (p *Proxy) kept(c *call) *answer { return p.reads[c.path+"?"+c.query.Encode()] }

// staleGet shows an object in its state before a write.
func staleGet(p *Proxy, c *call) (*answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.lists() || !c.mostRecent() || p.kept(c) == nil {
		return nil, nil
	}
	old := p.kept(c)
	if o := read(old.body); o.revision() >= p.acked[c.name] || !p.tell() {
		return nil, nil
	}
	return old, nil
}

// staleList shows all objects in their state before some writes.
func staleList(p *Proxy, c *call) (*answer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.lists() || !c.mostRecent() || p.kept(c) == nil {
		return nil, nil
	}
	old := p.kept(c)
	if o := read(old.body); o.revision() >= p.latest || !p.tell() {
		return nil, nil
	}
	return old, nil
}

// withItems is a list with other items.
func withItems(body []byte, items []json.RawMessage) []byte {
	return changed(body, func(fields, _ map[string]any) { fields["items"] = items })
}

// same says whether two items are the same state of an object.
func same(a, b json.RawMessage) bool {
	x, y := read(a), read(b)
	return x.Metadata.Name == y.Metadata.Name && x.revision() == y.revision()
}

// twistList lets the server answer a list, and gives the client the items that twist returns; unchanged items are no lie.
func (p *Proxy) twistList(c *call, twist func(o object) []json.RawMessage) (*answer, error) {
	if !p.mayLie() {
		return nil, nil
	}
	a, err := c.do()
	lied := false
	if err == nil && a.code == http.StatusOK {
		o := read(a.body)
		items := twist(o)
		if lied = !slices.EqualFunc(items, o.Items, same); lied {
			a.body = withItems(a.body, items)
		}
	}
	p.settle(lied)
	return a, err
}

// renamedList shows the items of an older list with the revision of the latest.
func renamedList(p *Proxy, c *call) (*answer, error) {
	p.mu.Lock()
	old := p.kept(c)
	p.mu.Unlock()
	if !c.lists() || !c.mostRecent() || old == nil {
		return nil, nil
	}
	return p.twistList(c, func(object) []json.RawMessage { return read(old.body).Items })
}

// tornList shows one of the objects of a list in an earlier state.
func tornList(p *Proxy, c *call) (*answer, error) {
	if !c.lists() {
		return nil, nil
	}
	return p.twistList(c, func(o object) []json.RawMessage {
		items := slices.Clone(o.Items)
		for i := range items {
			item := read(items[i])
			p.mu.Lock()
			old := p.reads[c.path+"/"+item.Metadata.Name+"?"]
			p.mu.Unlock()
			if old == nil {
				continue
			}
			if before := read(old.body); before.revision() < item.revision() {
				items[i] = old.body
				break
			}
		}
		return items
	})
}

// skipItem leaves out the first item of a further page.
func skipItem(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || !c.query.Has("continue") {
		return nil, nil
	}
	return p.twistList(c, func(o object) []json.RawMessage {
		if len(o.Items) < 2 {
			return o.Items // otherwise the gap would be visible only on the next page, which may not be requested
		}
		return o.Items[1:]
	})
}

// refusePage answers that a valid token has expired.
func refusePage(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || !c.query.Has("continue") || !p.mayLie() {
		return nil, nil
	}
	p.settle(true)
	return status(http.StatusGone, "Expired"), nil
}

// atAnother lets the server answer another list than the requested one, which is a lie when its revision is wrong.
func (p *Proxy) atAnother(c *call, parameters map[string]string, wrong func(asked, revision int64) bool) (*answer, error) {
	if !p.mayLie() {
		return nil, nil
	}
	a, err := c.with(parameters).do()
	lied := false
	if err == nil && a.code == http.StatusOK {
		o := read(a.body)
		lied = wrong(c.at(), o.revision())
	}
	p.settle(lied)
	return a, err
}

func (c *call) at() int64 {
	revision, _ := strconv.ParseInt(c.query.Get("resourceVersion"), 10, 64)
	return revision
}

// inexactList shows the most recent state where a revision was requested.
func inexactList(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || c.query.Get("resourceVersionMatch") != "Exact" {
		return nil, nil
	}
	return p.atAnother(c, map[string]string{"resourceVersion": "", "resourceVersionMatch": ""}, func(asked, revision int64) bool { return revision != asked })
}

// olderList shows the state before the revision that an answer must not be older than.
func olderList(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || c.query.Get("resourceVersionMatch") != "NotOlderThan" {
		return nil, nil
	}
	return p.atAnother(c, map[string]string{"resourceVersion": strconv.FormatInt(c.at()-1, 10), "resourceVersionMatch": "Exact"},
		func(asked, revision int64) bool { return revision < asked })
}
