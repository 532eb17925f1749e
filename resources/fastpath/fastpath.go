package fastpath

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Path is a fast path. Its methods can be used concurrently.
type Path struct {
	// Name is what --fast-paths and the label of the metric call it.
	Name string
	// Doc says in a sentence what it is.
	Doc string

	off       atomic.Bool
	fallbacks atomic.Int64
}

// On tells whether the path is to be taken. It costs a read of memory.
func (p *Path) On() bool { return !p.off.Load() }

// Fallback counts something that the path, which is on, has left to the plain way.
func (p *Path) Fallback() { p.fallbacks.Add(1) }

// Fallbacks is how often Fallback was called.
func (p *Path) Fallbacks() int64 { return p.fallbacks.Load() }

// Turn turns the path on or off, and returns what puts it back. It is for tests.
func (p *Path) Turn(on bool) (back func()) {
	was := p.off.Swap(!on)
	return func() { p.off.Store(was) }
}

var all []*Path

// register makes a path, which is on.
func register(name, doc string) *Path {
	p := &Path{Name: name, Doc: doc}
	all = append(all, p)
	return p
}

// All returns all paths, in the order of paths.go. The slice must not be changed.
func All() []*Path { return all }

// everyPath is the name that stands for all of them.
const everyPath = "all"

// Choose turns paths off, and all others on, as --fast-paths says: name for one that is on, -name for one that is off; all and
// -all stand for every path. Of several that name a path the last counts. An error changes nothing, and lists the names.
func Choose(choice []string) error {
	off := map[*Path]bool{}
	for _, word := range choice {
		name, minus := strings.CutPrefix(strings.TrimSpace(word), "-")
		known := name == everyPath
		for _, p := range all {
			if name == everyPath || name == p.Name {
				off[p], known = minus, true
			}
		}
		if !known {
			return fmt.Errorf("there is no fast path %q; there are %s and %s", name, strings.Join(Names(), ", "), everyPath)
		}
	}
	for _, p := range all {
		p.off.Store(off[p])
	}
	return nil
}

// Names are those of all paths.
func Names() []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return names
}

// Environment is the variable that says the same as --fast-paths, with commas between names. Tests know no flags: it is looked
// at when the program starts.
const Environment = "ROWLOCK_FAST_PATHS"

func init() {
	value := os.Getenv(Environment)
	if value == "" {
		return
	}
	if err := Choose(strings.Split(value, ",")); err != nil && isTest(os.Args[0]) {
		panic(errors.Join(errors.New(Environment), err)) // in others the flag says so, whose value the variable is
	}
}

// isTest tells whether a program is a test. `go test` gives it this name.
func isTest(program string) bool {
	return strings.HasSuffix(strings.TrimSuffix(program, ".exe"), ".test")
}
