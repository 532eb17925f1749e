package sqlstore

import "sync/atomic"

// origin is where the cache was last brought up to date from: cluster, timeline and table. History has to come from
// there as well. A connection to a primary that was replaced and does not know it may have another history, or a
// shorter one.
type origin struct {
	name   atomic.Pointer[string]
	astray func() // called when history comes from somewhere else
}

// noted records the origin of a page.
func (o *origin) noted(name string) {
	if known := o.name.Load(); known == nil || *known != name {
		o.name.Store(&name)
	}
}

// forget is called when the cache was loaded again.
func (o *origin) forget() { o.name.Store(nil) }

// is reports whether name is this origin. Before the first page, any name is, if the counter was last raised there.
func (o *origin) is(name string) bool {
	known := o.name.Load()
	if name != "" && (known == nil || *known == name) {
		return true
	}
	o.astray()
	return false
}

// selectHistoryHereSQL is selectHistorySQL for Postgres: with the origin, which is NULL if the counter was last raised
// somewhere else, and with a bound of the bytes ($7).
const selectHistoryHereSQL = historyHeadSQL + `CASE WHEN m.origin = ` + actualSQL + ` THEN m.origin END` + historyMiddleSQL + `meta m` + historyTailSQL + historyCutSQL
