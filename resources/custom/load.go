package custom

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/rowlock/rowlock/resources"
)

// load reads all definitions, and opens the watches that follow them.
func (d *Definitions) load(ctx context.Context) error {
	all, err := d.Store.Snapshot(ctx, Resource, resources.At{Match: resources.MostRecent})
	if err != nil {
		return err
	}
	o := resources.WatchOptions{Resource: Resource, After: all.Revision()}
	plain, err := d.Store.Watch(ctx, o)
	if err != nil {
		return err
	}
	o.Wake = d.wake
	if d.alarm, err = d.Store.Watch(ctx, o); err != nil {
		d.alarm = nil
		plain.Close()
		return err
	}
	d.watch = plain
	there := map[string]bool{}
	var changed []*resources.Object
	d.mu.Lock()
	all.Ascend("", "", func(o *resources.Object) bool {
		there[o.Name] = true
		if known := d.byName[o.Name]; known == nil || known.revision != o.Revision {
			changed = append(changed, o)
		}
		return true
	})
	d.mu.Unlock()
	next := d.readAll(changed)
	d.edit(func(e *resources.Edit) {
		for name := range d.byName {
			if !there[name] {
				d.put(e, name, nil)
			}
		}
		for i, o := range changed {
			next[i].follows(d.byName[o.Name], true)
			d.put(e, o.Name, next[i])
		}
	})
	return nil
}

// readAll reads definitions on all processors: a start waits for it.
func (d *Definitions) readAll(all []*resources.Object) []*definition {
	read := make([]*definition, len(all))
	var next atomic.Int64
	var work sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(all)) {
		work.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(all); i = int(next.Add(1)) - 1 {
				read[i] = d.read(all[i])
			}
		})
	}
	work.Wait()
	return read
}

// read reads a definition. A definition that cannot be read, which validation would refuse, is not served.
func (d *Definitions) read(o *resources.Object) *definition {
	def, err := newDefinition(o, d.Scheme, &d.compiled, &d.lines)
	if err != nil {
		d.Logger.Error("a custom resource definition is not served", "name", o.Name, "error", err)
		return emptyDefinition(o)
	}
	if def.conversions != nil {
		def.differs = func(t *resources.Type) { d.reshow(def, t) }
	}
	return def
}
