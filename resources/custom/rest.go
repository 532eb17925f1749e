package custom

import "github.com/rowlock/rowlock/resources"

// keeper is a store that keeps large objects packed.
type keeper interface {
	// Kept returns an object as the store keeps it, which may be packed. Nil: there is none.
	Kept(key resources.Key) *resources.Object
}

// Rest drops the compiled forms of schemas, which are made again on demand, and reports whether there were any. It is called when
// the server becomes idle.
func (d *Definitions) Rest() bool {
	d.lines.rest()
	return d.compiled.clear()
}

// Cool replaces objects of definitions by the store's packed ones with the same revision. It is called after the store has packed
// large objects.
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
