package controlplane

import (
	"context"
	"slices"

	"github.com/rowlock/rowlock/resources"
)

// upkeep is a chore that works on types, which may come, be replaced and go while the server runs.
type upkeep struct {
	// types are their names in the store.
	types []string
	// chore makes the chore of the types that are served now; nil: one of them is not.
	chore func() *chore
}

// upkeeps are the chores of types that may be others than at the start.
func (p *Plane) upkeeps() []upkeep {
	return []upkeep{
		{[]string{apiServicesResource}, p.keepAPIServices},
		{[]string{flowsResource, levelsResource}, p.keepFlows},
		{[]string{servicesResource, addressesResource, rangesResource}, p.keepAddresses},
	}
}

// keepServed does a chore while the types are served that it works on, and begins anew with those that take their place, until
// ctx ends or the store is closed.
func (p *Plane) keepServed(ctx context.Context, u upkeep) {
	for over := false; !over; {
		catalog := p.Registry.Catalog()
		types := stored(catalog, u.types)
		inner, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if c := u.chore(); c != nil { // of a later catalog, perhaps: then it ends at once
				p.keep(inner, c)
			} else {
				<-inner.Done()
			}
		}()
		for !over && slices.Equal(types, stored(catalog, u.types)) {
			select {
			case <-done:
				over = true
			case <-catalog.Replaced():
				catalog = p.Registry.Catalog()
			}
		}
		stop()
		<-done
	}
}

// stored are types of a catalog; nil where there is none of the name.
func stored(catalog *resources.Catalog, names []string) []*resources.Type {
	types := make([]*resources.Type, len(names))
	for i, name := range names {
		types[i], _ = catalog.Type(name)
	}
	return types
}
