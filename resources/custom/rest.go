package custom

import "github.com/rowlock/rowlock/resources"

// keeper is a store that keeps large objects packed.
type keeper interface {
	// Kept returns an object as it is kept, which may be packed. Nil: there is none.
	Kept(key resources.Key) *resources.Object
}

// Rest drops what was compiled of schemas, which is made again when it is needed, and reports whether there was anything. It is for
// when the server has come to rest.
func (d *Definitions) Rest() bool {
	d.lines.rest()
	return d.compiled.clear()
}

// Cool holds definitions as the store keeps them, packed, where that has the same revision. It is for when the store has packed what
// is large.
func (d *Definitions) Cool() {
	store, ok := d.Store.(keeper)
	if !ok {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.byName {
		if kept := store.Kept(def.key); kept != nil && kept.Revision == def.revision && kept.Unreadable() == nil {
			def.object.Store(kept)
		}
	}
}
