package sqlstore

import "sync/atomic"

// origin is where the cache has last been brought up from: cluster, timeline and table. History has to come from there as well.
// A connection to a primary that was replaced and does not know it may have another, or one that ended.
type origin struct {
	name   atomic.Pointer[string]
	astray func() // is called when history is somewhere else
}

// noted is the origin that a page was taken from.
func (o *origin) noted(name string) {
	if known := o.name.Load(); known == nil || *known != name {
		o.name.Store(&name)
	}
}

// forget is called when the cache was loaded anew.
func (o *origin) forget() { o.name.Store(nil) }

// is reports whether an origin is this one. Before the first page was taken it is any where the counter was raised last.
func (o *origin) is(name string) bool {
	known := o.name.Load()
	if name != "" && (known == nil || *known == name) {
		return true
	}
	o.astray()
	return false
}

// selectHistoryHereSQL is selectHistorySQL with the origin, or none where the counter was raised last somewhere else.
const selectHistoryHereSQL = historyHeadSQL + `CASE WHEN m.origin = ` + actualSQL + ` THEN m.origin END` + historyMiddleSQL + `meta m` + historyTailSQL
