package plan

import (
	"regexp"
	"runtime"
	"sync"
	"weak"
)

// interned has the values in use by their keys. It keeps none of them alive.
type interned[T any] struct {
	mu   sync.Mutex
	made map[string]weak.Pointer[T]
}

// of returns the value of a key.
func (t *interned[T]) of(key string, make func() (*T, error)) (*T, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if v := t.made[key].Value(); v != nil {
		return v, nil
	}
	v, err := make()
	if err != nil {
		return nil, err
	}
	if t.made == nil {
		t.made = map[string]weak.Pointer[T]{}
	}
	t.made[key] = weak.Make(v)
	runtime.AddCleanup(v, t.forget, key)
	return v, nil
}

// forget removes a value that was collected, unless it has been made again.
func (t *interned[T]) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p, ok := t.made[key]; ok && p.Value() == nil {
		delete(t.made, key)
	}
}

func (t *interned[T]) size() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.made)
}

// nodes are the nodes of all plans: published definitions are equal at most of their places. The key of a node has the addresses
// of its children, which stay valid as long as the node is alive.
var nodes interned[Node]

// patterns are the regular expressions of all nodes.
var patterns interned[pattern]

// pattern is a regular expression. It is compiled when it is first checked: a few bytes may stand for a large program.
type pattern struct {
	compiled func() (*regexp.Regexp, error)
}

func newPattern(text string) *pattern {
	return &pattern{sync.OnceValues(func() (*regexp.Regexp, error) { return regexp.Compile(text) })}
}

// check matches a text against the pattern.
func (p *pattern) check(s string) verdict {
	switch expression, err := p.compiled(); {
	case err != nil:
		return unknown
	case !expression.MatchString(s):
		return invalid
	}
	return valid
}

// Nodes is the number of nodes of all plans in use.
func Nodes() int { return nodes.size() }
