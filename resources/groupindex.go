package resources

import "maps"

// groupIndex finds groups by their names. It is never changed: the index after a change shares most of it with the one before.
type groupIndex struct {
	base map[string]*Group
	// recent are the changes since base was made. Nil: the group was removed.
	recent map[string]*Group
}

// mostRecent bounds recent: that many changes share the cost of a new base.
const mostRecent = 64

func (x groupIndex) get(name string) (*Group, bool) {
	if g, ok := x.recent[name]; ok {
		return g, g != nil
	}
	g, ok := x.base[name]
	return g, ok
}

// with returns the index after changes.
func (x groupIndex) with(changed map[string]*Group) groupIndex {
	recent := make(map[string]*Group, len(x.recent)+len(changed))
	maps.Copy(recent, x.recent)
	maps.Copy(recent, changed)
	if len(recent) <= mostRecent {
		return groupIndex{x.base, recent}
	}
	base := make(map[string]*Group, len(x.base)+len(recent))
	maps.Copy(base, x.base)
	maps.Copy(base, recent)
	maps.DeleteFunc(base, func(_ string, g *Group) bool { return g == nil })
	return groupIndex{base: base}
}
