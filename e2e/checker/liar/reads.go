package liar

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
)

// mostRecent says whether a read asks for what is most recent, and all of it.
func (c *call) mostRecent() bool {
	return c.method == http.MethodGet && !c.query.Has("resourceVersion") && !c.query.Has("limit") && !c.query.Has("continue")
}

func (c *call) lists() bool { return c.method == http.MethodGet && c.name == "" }

// kept is the first answer to the same read; nil: there was none. The caller holds mu.
func (p *Proxy) kept(c *call) *answer { return p.reads[c.path+"?"+c.query.Encode()] }

// staleGet shows an object as it was before it was written.
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

// staleList shows all objects as they were before some were written.
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

// same says whether two items are an object in one state.
func same(a, b json.RawMessage) bool {
	x, y := read(a), read(b)
	return x.Metadata.Name == y.Metadata.Name && x.revision() == y.revision()
}

// twistList has the server answer a list, and gives a client what twist makes of the items; the same items are no lie.
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

// renamedList shows the items of an older list under the revision of the last.
func renamedList(p *Proxy, c *call) (*answer, error) {
	p.mu.Lock()
	old := p.kept(c)
	p.mu.Unlock()
	if !c.lists() || !c.mostRecent() || old == nil {
		return nil, nil
	}
	return p.twistList(c, func(object) []json.RawMessage { return read(old.body).Items })
}

// tornList shows one of the objects of a list as it was before.
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
			return o.Items // which would be seen on the next page alone, that nobody may ask for
		}
		return o.Items[1:]
	})
}

// refusePage says of a token that is good that it has expired.
func refusePage(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || !c.query.Has("continue") || !p.mayLie() {
		return nil, nil
	}
	p.settle(true)
	return status(http.StatusGone, "Expired"), nil
}

// atAnother has the server answer another list than the one that a client asks for, which is a lie when it is of a revision that is not right.
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

// inexactList shows what is most recent where a revision was asked for.
func inexactList(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || c.query.Get("resourceVersionMatch") != "Exact" {
		return nil, nil
	}
	return p.atAnother(c, map[string]string{"resourceVersion": "", "resourceVersionMatch": ""}, func(asked, revision int64) bool { return revision != asked })
}

// olderList shows what was there before the revision that an answer must not be older than.
func olderList(p *Proxy, c *call) (*answer, error) {
	if !c.lists() || c.query.Get("resourceVersionMatch") != "NotOlderThan" {
		return nil, nil
	}
	return p.atAnother(c, map[string]string{"resourceVersion": strconv.FormatInt(c.at()-1, 10), "resourceVersionMatch": "Exact"},
		func(asked, revision int64) bool { return revision < asked })
}
