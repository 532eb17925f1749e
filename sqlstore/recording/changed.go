package recording

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

const (
	// pathsMax is how many paths of a write are kept.
	pathsMax = 64
	// pathMax is how many bytes of a path are kept.
	pathMax = 256
	// depthMax is how deep values are compared member by member: each level is parsed anew, and clients may nest
	// thousands. A value below that differs as a whole.
	depthMax = 32
	// More is the last path if there were more than are kept.
	More = "..."
)

// Changes are the differences between two states of an object.
type Changes struct {
	// Paths are the fields that differ, as in spec.template.spec.containers[name=web].image. Elements of lists are
	// identified by their name, type or uid if all have one, and otherwise by their index; a list without such names
	// whose length changed differs as a whole.
	Paths []string
	// Heartbeat is set if all paths only show that a client is alive.
	Heartbeat bool
}

// Changed compares two states, as Strip returns them. Members may be in any order.
func Changed(before, after []byte) Changes {
	d := differ{Changes: Changes{Paths: []string{}, Heartbeat: true}}
	d.value("", text(before), text(after))
	d.Heartbeat = d.Heartbeat && len(d.Paths) > 0
	return d.Changes
}

type differ struct {
	Changes
	depth int
}

func (d *differ) value(path, a, b string) {
	d.depth++
	defer func() { d.depth-- }()
	above := path[:min(len(path), 2*pathMax)] // else a name of a megabyte would be copied for each member below it
	switch {
	case a == b:
	case d.depth > depthMax:
		d.add(path)
	case kindOf(a) == '{' && kindOf(b) == '{':
		d.members(above, membersOf(a, ""), membersOf(b, ""), dotted)
	case kindOf(a) == '[' && kindOf(b) == '[':
		d.list(above, a, b)
	default:
		d.add(path)
	}
}

// kindOf returns the first byte of a value.
func kindOf(raw string) byte {
	if raw == "" {
		return 0
	}
	return raw[0]
}

func (d *differ) add(path string) {
	d.Heartbeat = d.Heartbeat && isHeartbeat(path)
	switch n := len(d.Paths); {
	case n == pathsMax:
		d.Paths = append(d.Paths, More)
	case n < pathsMax:
		d.Paths = append(d.Paths, bounded(path))
	}
}

func bounded(path string) string {
	if len(path) <= pathMax {
		return path
	}
	end := pathMax
	for end > 0 && !utf8.RuneStart(path[end]) {
		end--
	}
	return path[:end] + More
}

// member is a member of an object, or of a list whose elements have names.
type member struct{ key, raw string }

func membersOf(raw, by string) (members []member) {
	gjson.Parse(raw).ForEach(func(k, v gjson.Result) bool {
		key := k.String()
		if by != "" {
			key = "[" + by + "=" + v.Get(by).String() + "]"
		}
		members = append(members, member{key, v.Raw})
		return true
	})
	return members
}

// dotted returns the path of a member of an object.
func dotted(path, key string) string {
	switch {
	case strings.ContainsAny(key, ".[]") || key == "":
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
}

// bracketed returns the path of an element of a list.
func bracketed(path, key string) string { return path + key }

func (d *differ) members(path string, before, after []member, join func(path, key string) string) {
	if sameKeys(before, after) {
		for i := range after {
			if before[i].raw != after[i].raw {
				d.value(join(path, after[i].key), before[i].raw, after[i].raw)
			}
		}
		return
	}
	were := make(map[string]string, len(before))
	for _, m := range before {
		were[m.key] = m.raw
	}
	for _, m := range after {
		was, ok := were[m.key]
		if delete(were, m.key); ok && was == m.raw {
			continue
		}
		if !ok {
			d.add(join(path, m.key))
			continue
		}
		d.value(join(path, m.key), was, m.raw)
	}
	for _, m := range before {
		if _, left := were[m.key]; left {
			d.add(join(path, m.key))
		}
	}
}

func sameKeys(a, b []member) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].key != b[i].key {
			return false
		}
	}
	return true
}

// names are the members that identify the elements of a list, if all elements have one, and no two the same.
var names = []string{"name", "type", "uid"}

func (d *differ) list(path, a, b string) {
	for _, by := range names {
		before, after := membersOf(a, by), membersOf(b, by)
		if named(before, by) && named(after, by) {
			d.members(path, before, after, bracketed)
			return
		}
	}
	before, after := membersOf(a, ""), membersOf(b, "")
	if len(before) != len(after) {
		d.add(path)
		return
	}
	for i := range after {
		d.value(path+"["+strconv.Itoa(i)+"]", before[i].raw, after[i].raw)
	}
}

func named(members []member, by string) bool {
	none := "[" + by + "=]"
	seen := make(map[string]bool, len(members))
	for _, m := range members {
		if kindOf(m.raw) != '{' || m.key == none || seen[m.key] {
			return false
		}
		seen[m.key] = true
	}
	return true
}
