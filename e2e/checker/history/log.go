package history

import (
	"slices"
	"sort"
	"strings"
)

// change is the effect of a write.
type change struct {
	Event          // its time is that of the first sight
	before *Object // nil: there was no object
}

// changeLog has all changes in the namespace, in the order of revisions.
type changeLog struct {
	changes []change
	// versions are the changes of each object.
	versions map[string][]*change
	names    []string // in order
}

// index makes the log of changes in any order.
func (l *changeLog) index() {
	slices.SortFunc(l.changes, func(a, b change) int { return int(a.Object.Revision - b.Object.Revision) })
	l.versions, l.names = map[string][]*change{}, nil
	for i := range l.changes {
		c := &l.changes[i]
		name := c.Object.Name
		if before := l.versions[name]; len(before) > 0 && before[len(before)-1].Type != Deleted {
			c.before = &before[len(before)-1].Object
		} else if len(before) == 0 {
			l.names = append(l.names, name)
		}
		l.versions[name] = append(l.versions[name], c)
	}
	slices.Sort(l.names)
}

// latest returns the last change of an object up to a revision, and the one after it, or nil.
func (l *changeLog) latest(name string, revision int64) (at, next *change) {
	all := l.versions[name]
	i := sort.Search(len(all), func(i int) bool { return all[i].Object.Revision > revision })
	if i > 0 {
		at = all[i-1]
	}
	if i < len(all) {
		next = all[i]
	}
	return at, next
}

// object returns an object as of a revision; nil: it did not exist.
func (l *changeLog) object(name string, revision int64) *Object {
	if at, _ := l.latest(name, revision); at != nil && at.Type != Deleted {
		return &at.Object
	}
	return nil
}

// state returns all objects of a color as of a revision, in the order of their names.
func (l *changeLog) state(revision int64, color string) []Object {
	var all []Object
	for _, name := range l.names {
		if o := l.object(name, revision); o != nil && matches(o.Color, color) {
			all = append(all, *o)
		}
	}
	return all
}

// matches says whether a list or watch that selects a color selects an object.
func matches(color, selected string) bool {
	return selected == "" || color == selected || color == EndColor
}

// position is the index of the first change after a revision.
func (l *changeLog) position(revision int64) int {
	return sort.Search(len(l.changes), func(i int) bool { return l.changes[i].Object.Revision > revision })
}

// seenBy returns the event of a change in a watch of a color; false: it has none.
func (c *change) seenBy(color string) (Event, bool) {
	event := c.Event
	if color == "" {
		return event, true
	}
	was := c.before != nil && matches(c.before.Color, color)
	is := c.Type != Deleted && matches(c.Object.Color, color)
	switch {
	case is && !was:
		event.Type = Added
	case is:
		event.Type = Modified
	case was: // the last matching state, at the revision at which it no longer matches
		event.Type, event.Object = Deleted, *c.before
		event.Object.Revision = c.Object.Revision
	default:
		return event, false
	}
	return event, true
}

func describe(objects []Object) string {
	texts := make([]string, len(objects))
	for i, o := range objects {
		texts[i] = o.String()
	}
	return "{" + strings.Join(texts, " ") + "}"
}
