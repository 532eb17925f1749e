package custom

import (
	"context"

	"github.com/rowlock/rowlock/resources"
)

// A change of the spec of a definition makes its webhook convert all objects again (resources.Type.Conversion), as in kube-apiserver: a corrected
// webhook may have come with it, behind the same Service. Watches go on, because the webhook usually gives the same results.

// reshow ends the watches of a version of a definition: for an object, which they may have sent, its webhook gives other bytes than before a change of
// the definition. A call for each further object does nothing.
func (d *Definitions) reshow(name string, t *resources.Type) {
	all, err := d.Store.Snapshot(context.Background(), Resource, resources.At{Match: resources.Any})
	if err != nil {
		return // the store is closed, and so are the watches
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.byName[name]
	if now == nil {
		return
	}
	if is := now.types.of(t.Hub.Version); is == nil || is.Form != t.Form {
		return
	}
	next := d.read(now.object.Load())
	next.follows(now, false)
	is := next.types.of(t.Hub.Version)
	if is == nil {
		return // it cannot be read any more
	}
	is.Form += " " + resources.FormatRevision(all.Revision())
	is.Since = all.Revision()
	d.Registry.Edit(func(e *resources.Edit) { d.put(e, name, next) })
}
