package controllers

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
)

// absent is something that this server does not serve at present: a kind in a version, a type by its name in the store, or the version of an APIService.
type absent struct {
	kind     schema.GroupVersionKind
	resource string
	// apiService is an APIService with a Service (proxied.go).
	apiService string
}

// served tells whether a catalog serves it.
func (a absent) served(c *resources.Catalog) bool {
	ok := false
	switch {
	case a.apiService != "":
	case a.resource != "":
		_, ok = c.Type(a.resource)
	default:
		_, ok = kindOf(c, a.kind)
	}
	return ok
}

// absentError says that an object cannot be judged until something is served. It is left alone until then.
type absentError struct{ absent }

func (e *absentError) Error() string {
	if e.resource != "" {
		return fmt.Sprintf("%s are not served", e.resource)
	}
	if e.apiService != "" {
		return fmt.Sprintf("%s is served by another server", e.apiService)
	}
	return fmt.Sprintf("%s is not served", e.kind)
}

// parked are objects that wait for something to be served. A change of the catalog costs time only for the objects that waited
// for it, however many others there are. Each object waits for one thing at most.
type parked struct {
	mu    sync.Mutex
	by    map[absent]sets.Set[types.UID]
	waits map[types.UID]absent
}

func (p *parked) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.by, p.waits = map[absent]sets.Set[types.UID]{}, map[types.UID]absent{}
}

func (p *parked) add(uid types.UID, until absent) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(uid)
	if p.by[until] == nil {
		p.by[until] = sets.Set[types.UID]{}
	}
	p.by[until].Insert(uid)
	p.waits[uid] = until
}

// remove forgets an object.
func (p *parked) remove(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(uid)
}

func (p *parked) drop(uid types.UID) {
	until, ok := p.waits[uid]
	if !ok {
		return
	}
	delete(p.waits, uid)
	if of := p.by[until].Delete(uid); of.Len() == 0 {
		delete(p.by, until)
	}
}

// take removes and returns the objects that wait for something that is served now.
func (p *parked) take(served func(absent) bool) (uids []types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for until, of := range p.by {
		if !served(until) {
			continue
		}
		for uid := range of {
			uids = append(uids, uid)
			delete(p.waits, uid)
		}
		delete(p.by, until)
	}
	return uids
}
