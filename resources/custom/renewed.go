package custom

import (
	"context"
	"errors"

	"github.com/rowlock/rowlock/resources"
)

// A change of the spec of a definition makes its webhook convert all objects again (resources.Type.Conversion), as in kube-apiserver: a corrected
// webhook may have come with it, behind the same Service. Watches go on, because the webhook usually gives the same results.

// reshow ends the watches of a version of a definition: for an object, which they may have sent, its webhook gives other bytes than before the last
// change of the spec, in the definition by. A call for each further object does nothing. The form stays, and with it the results that were made since.
func (d *Definitions) reshow(by *definition, t *resources.Type) {
	if !d.mayReshow(by, t) {
		return
	}
	all, err := d.Store.Snapshot(context.Background(), Resource, resources.At{Match: resources.Any})
	if err != nil {
		if !errors.Is(err, resources.ErrClosed) { // its watches are closed, too
			d.Logger.Error("watches of custom resources that are converted to other bytes than before do not end", "name", by.name, "error", err)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.byName[by.name]
	if !now.showsBefore(by, t) {
		return
	}
	next := d.read(now.object.Load())
	next.follows(now, false)
	is := next.types.of(t.Hub.Version)
	if is == nil {
		return // it cannot be read any more
	}
	is.Renewed, is.Since = by.generation, all.Revision()
	d.Registry.Edit(func(e *resources.Edit) { d.put(e, by.name, next) })
}

// mayReshow reports whether reshow has something to do.
func (d *Definitions) mayReshow(by *definition, t *resources.Type) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byName[by.name].showsBefore(by, t)
}

// showsBefore reports whether watches may have sent objects as they were before the last change of the spec in a definition, which has the type: no
// result since then has differed so far.
func (d *definition) showsBefore(by *definition, t *resources.Type) bool {
	if d == nil {
		return false
	}
	is := d.types.of(t.Hub.Version)
	return is != nil && is.Form == t.Form && is.Renewed < by.generation
}
