package sqlstore

import "sync/atomic"

// place is where the cache has last been brought up from: cluster, timeline and table. History has to come from there as well.
// A connection to a primary that was replaced and does not know it may have another, or one that ended.
type place struct {
	name   atomic.Pointer[string]
	astray func() // is called when history is somewhere else
}

// noted is the place that a page was taken from.
func (p *place) noted(name string) {
	if known := p.name.Load(); known == nil || *known != name {
		p.name.Store(&name)
	}
}

// forget is called when the cache was loaded anew.
func (p *place) forget() { p.name.Store(nil) }

// is reports whether a place is this one. Before the first page was taken it is any where the counter was raised last.
func (p *place) is(name string) bool {
	known := p.name.Load()
	if name != "" && (known == nil || *known == name) {
		return true
	}
	p.astray()
	return false
}

// selectHistoryHereSQL is selectHistorySQL with the place, or none where the counter was raised last somewhere else.
const selectHistoryHereSQL = historyHeadSQL + `CASE WHEN m.origin = ` + actualSQL + ` THEN m.origin END` + historyMiddleSQL + `meta m` + historyTailSQL
