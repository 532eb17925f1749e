package fastpath

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
)

// Path is a fast path. Its methods are safe for concurrent use.
type Path struct {
	// Name is its name in --fast-paths and in the label of the metric.
	Name string
	// Doc describes it in a sentence.
	Doc string

	state     atomic.Int32
	fallbacks atomic.Int64
}

// The states of a path. The environment is read on first use, so that `go test` sees that a test reads it, and does not take a
// cached result for another environment as the outcome.
const (
	undecided = iota
	on
	off
)

// On reports whether to take the path. It costs a read of memory.
func (p *Path) On() bool {
	if s := p.state.Load(); s != undecided {
		return s == on
	}
	return p.decide()
}

// decide reads the environment.
func (p *Path) decide() bool {
	s, err := parse(strings.Split(os.Getenv(Environment), ","))
	if err != nil && isTest(os.Args[0]) {
		panic(fmt.Errorf("%s: %w", Environment, err)) // in other programs the variable sets --fast-paths, which has reported the error
	}
	p.state.CompareAndSwap(undecided, s.of(p))
	return p.On()
}

// Fallback counts a case that the path, which is on, has left to the plain way.
func (p *Path) Fallback() { p.fallbacks.Add(1) }

// Fallbacks is the number of calls of Fallback.
func (p *Path) Fallbacks() int64 { return p.fallbacks.Load() }

// Turn turns the path on or off, and returns a function that restores it. It is for tests.
func (p *Path) Turn(to bool) (back func()) {
	s := int32(off)
	if to {
		s = on
	}
	was := p.state.Swap(s)
	return func() { p.state.Store(was) }
}

// TurnAll is Turn of every path.
func TurnAll(to bool) (back func()) {
	var backs []func()
	for _, p := range all {
		backs = append(backs, p.Turn(to))
	}
	return func() {
		for _, back := range backs {
			back()
		}
	}
}

var all []*Path

// register makes a path that is on.
func register(name, doc string) *Path {
	p := &Path{Name: name, Doc: doc}
	all = append(all, p)
	return p
}

// All returns all paths, in the order of paths.go. The slice must not be changed.
func All() []*Path { return all }

// everyPath is the name for all of them.
const everyPath = "all"

// Choose turns paths on or off, as in --fast-paths: name turns one on, -name turns one off; all and -all stand for every path. A
// path that is not named is on. If several words name a path, the last one counts. An error changes nothing, and lists the names.
func Choose(choice []string) error {
	s, err := parse(choice)
	if err != nil {
		return err
	}
	for _, p := range all {
		p.state.Store(s.of(p))
	}
	return nil
}

// choice has the states of the paths that it names.
type choice map[*Path]int32

// of is the state of a path: the chosen one, else on.
func (c choice) of(p *Path) int32 {
	if s, named := c[p]; named {
		return s
	}
	return on
}

func parse(words []string) (choice, error) {
	c := choice{}
	for _, word := range words {
		word = strings.TrimSpace(word)
		name, minus := strings.CutPrefix(word, "-")
		known := word == ""
		for _, p := range all {
			if name != everyPath && name != p.Name {
				continue
			}
			c[p], known = on, true
			if minus {
				c[p] = off
			}
		}
		if !known {
			return nil, fmt.Errorf("there is no fast path %q; there are %s and %s", name, strings.Join(Names(), ", "), everyPath)
		}
	}
	return c, nil
}

// Names are the names of all paths.
func Names() []string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Name
	}
	return names
}

// Environment is the variable with the same meaning as --fast-paths, with commas between names. Tests, which have no flags, read
// it.
const Environment = "ROWLOCK_FAST_PATHS"

// isTest reports whether a program is a test, by the name that `go test` gives it.
func isTest(program string) bool {
	return strings.HasSuffix(strings.TrimSuffix(program, ".exe"), ".test")
}
