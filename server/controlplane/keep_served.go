package controlplane

import (
	"context"
	"slices"

	"github.com/rowlock/rowlock/resources"
)

// upkeep is a chore for types that may appear, be replaced and disappear while the server runs.
type upkeep struct {
	// types are the names of the types in the store.
	types []string
	// chore returns a chore for the types that are served now; nil: one of them is not served.
	chore func() *chore
}

// upkeeps are the chores of types that may change after the start.
func (p *Plane) upkeeps(n Network) []upkeep {
	return []upkeep{
		{[]string{apiServicesResource}, p.keepAPIServices},
		{[]string{flowsResource, levelsResource}, p.keepFlows},
		{[]string{servicesResource, addressesResource, rangesResource}, p.keepAddresses},
		{[]string{servicesResource}, func() *chore { return p.keepPorts(n) }},
	}
}

// keepServed runs a chore while its types are served, and starts it anew when the types are replaced, until ctx ends or the
// store is closed.
func (p *Plane) keepServed(ctx context.Context, u upkeep) {
	for over := false; !over; {
		catalog := p.Registry.Catalog()
		types := stored(catalog, u.types)
		inner, stop := context.WithCancel(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			if c := u.chore(); c != nil { // the chore may already use a later catalog; it then ends at once
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

// stored returns types of a catalog; nil for a name that the catalog does not have.
func stored(catalog *resources.Catalog, names []string) []*resources.Type {
	types := make([]*resources.Type, len(names))
	for i, name := range names {
		types[i], _ = catalog.Type(name)
	}
	return types
}
