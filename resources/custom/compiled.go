package custom

import (
	"container/list"
	"errors"
	"sync"
)

// compiledRoom is the estimated number of bytes that the compiled forms of schemas may take in all: structural schemas, validators and
// programs in CEL. All of it is released when the server becomes idle (Definitions.Rest).
const compiledRoom = 64 << 20

// compiled caches compiled forms of schemas. Every entry can be dropped at any time and be made again; a caller may go on using a value that
// was dropped. It is safe for concurrent use.
type compiled struct {
	room int64

	mu     sync.Mutex
	used   int64
	byKey  map[any]*list.Element // of entries
	recent list.List             // most recently used first
	kinds  [len(kinds)]usage
}

// entry is a value that is made or being made.
type entry struct {
	key  any
	size int64
	once sync.Once
	v    any
	err  error
}

// get returns the value of a key. If there is none, one caller makes it and the others wait. size is the estimated size of the value. An error
// is not kept.
func (c *compiled) get(key any, size int64, build func() (any, error)) (any, error) {
	e := c.entry(key, size)
	e.once.Do(func() {
		e.err = errUnfinished // for the callers that wait, if build panics
		defer func() {
			if e.err != nil {
				c.forget(e)
			}
		}()
		e.v, e.err = build()
	})
	return e.v, e.err
}

var errUnfinished = errors.New("a schema was not compiled: whoever did it has failed")

// entry finds or makes an entry, and drops the least recently used ones if there is no room for all.
func (c *compiled) entry(key any, size int64) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[key]; at != nil {
		c.recent.MoveToFront(at)
		return at.Value.(*entry)
	}
	e := &entry{key: key, size: size}
	if c.byKey == nil {
		c.byKey = map[any]*list.Element{}
	}
	c.byKey[key] = c.recent.PushFront(e)
	kind := &c.kinds[kindOf(key)]
	kind.entries++
	kind.bytes += size
	kind.compilations++
	for c.used += size; c.used > c.room && c.recent.Len() > 1; {
		c.drop(c.recent.Back())
	}
	return e
}

func (c *compiled) drop(at *list.Element) {
	e := c.recent.Remove(at).(*entry)
	delete(c.byKey, e.key)
	c.used -= e.size
	kind := &c.kinds[kindOf(e.key)]
	kind.entries--
	kind.bytes -= e.size
}

func (c *compiled) forget(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[e.key]; at != nil && at.Value == e {
		c.drop(at)
	}
}

// clear drops everything, and reports whether there was anything.
func (c *compiled) clear() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.recent.Len()
	c.used, c.byKey = 0, nil
	c.recent.Init()
	for i := range c.kinds {
		c.kinds[i].entries, c.kinds[i].bytes = 0, 0
	}
	return n > 0
}

// usages returns the usage of each kind.
func (c *compiled) usages() [len(kinds)]usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds
}
