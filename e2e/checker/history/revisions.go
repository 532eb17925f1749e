package history

import (
	"math"
	"slices"
	"sort"
)

// moment is when a revision became known, or when an operation began whose revision must not be older.
type moment struct {
	time     int64
	revision int64
	// begins says that an operation begins: its revision has to be at least, or for a write above, all known before.
	begins bool
	above  bool
	what   interface{ String() string }
}

// checkRevisions requires that resourceVersions grow in real time. A write is above, and a read or watch at most recent not below, any revision that
// any client of any server was told before the request.
func (c *checker) checkRevisions() {
	moments := c.moments()
	// An answer at the very moment at which an operation begins is not before it.
	slices.SortStableFunc(moments, func(a, b moment) int {
		if a.time != b.time {
			return int(a.time - b.time)
		}
		if a.begins == b.begins {
			return 0
		}
		if a.begins {
			return -1
		}
		return 1
	})
	known := moment{revision: math.MinInt64}
	for _, m := range moments {
		if !m.begins {
			if m.revision > known.revision {
				known = m
				c.known = append(c.known, m)
			}
			continue
		}
		if m.revision < known.revision || m.above && m.revision == known.revision {
			c.violate(RuleRealTime, []string{known.what.String(), m.what.String()}, "revision %d was known when something began that has revision %d",
				known.revision, m.revision)
		}
	}
}

// knownBefore is the highest revision that any client was told before a time.
func (c *checker) knownBefore(time int64) int64 {
	i := sort.Search(len(c.known), func(i int) bool { return c.known[i].time >= time })
	if i == 0 {
		return c.history.Start
	}
	return max(c.history.Start, c.known[i-1].revision)
}

func (c *checker) moments() []moment {
	var all []moment
	for i := range c.history.Operations {
		o := &c.history.Operations[i]
		switch {
		case o.writes() && o.Kind != Delete && o.done() && o.Object != nil:
			all = append(all, moment{time: o.Return, revision: o.Object.Revision, what: o},
				moment{time: o.Call, revision: o.Object.Revision, begins: true, above: true, what: o})
		case o.writes() && c.fate[i].happened:
			all = append(all, moment{time: o.Call, revision: c.fate[i].revision, begins: true, above: true, what: o})
		case o.Kind == Get && o.done() && o.Object != nil:
			all = append(all, moment{time: o.Return, revision: o.Object.Revision, what: o})
		case o.Kind == Delete && o.done() && o.Object != nil:
			if r := c.deletion(o.Name, o.Object.UID); r != 0 {
				all = append(all, moment{time: o.Return, revision: r, what: o}, moment{time: o.Call, revision: r, begins: true, above: true, what: o})
			}
		}
		for j, p := range o.Pages {
			if p.Code != 200 {
				continue
			}
			all = append(all, moment{time: p.Return, revision: p.Revision, what: o})
			if j == 0 && o.Match == MostRecent {
				all = append(all, moment{time: p.Call, revision: p.Revision, begins: true, what: o})
			}
		}
	}
	if l := c.history.Loss; l != nil {
		for i := range l.Flight {
			if o := &l.Flight[i]; o.done() && o.Object != nil {
				all = append(all, moment{time: o.Return, revision: o.Object.Revision, what: o},
					moment{time: o.Call, revision: o.Object.Revision, begins: true, above: true, what: o})
			}
		}
	}
	for i := range c.history.Watches {
		w := &c.history.Watches[i]
		begun := false
		for _, e := range w.Events {
			all = append(all, moment{time: e.Time, revision: e.Object.Revision, what: w})
			if e.InitialEnd && w.Match == MostRecent && !begun {
				all = append(all, moment{time: w.Call, revision: e.Object.Revision, begins: true, what: w})
			}
			begun = begun || e.InitialEnd
		}
	}
	return all
}

// deletion is the revision of an object's deletion; 0: it is not in the log.
func (c *checker) deletion(name, uid string) int64 {
	for _, v := range c.log.versions[name] {
		if v.Type == Deleted && v.Object.UID == uid {
			return v.Object.Revision
		}
	}
	return 0
}
