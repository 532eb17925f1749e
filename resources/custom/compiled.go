package custom

import (
	"container/list"
	"errors"
	"sync"
)

// compiledRoom is how many bytes what was compiled of schemas may take in all, by an estimate: structural schemas, validators and
// programs in CEL. It is given back as a whole when the server comes to rest (Definitions.Rest).
const compiledRoom = 64 << 20

// compiled keeps what is compiled of schemas. All of it can be dropped at any time and be made again; who has got a value
// goes on with it. It is safe for concurrent use.
type compiled struct {
	room int64

	mu     sync.Mutex
	used   int64
	byKey  map[any]*list.Element // of entries
	recent list.List             // what was asked for last is first
	kinds  [len(kinds)]usage
}

// entry is a value, being made or made.
type entry struct {
	key  any
	size int64
	once sync.Once
	v    any
	err  error
}

// get returns the value of a key. Where there is none it is made, by one of those who ask for it; the others wait. size is what it is going to
// take. An error is not kept.
func (c *compiled) get(key any, size int64, build func() (any, error)) (any, error) {
	e := c.entry(key, size)
	e.once.Do(func() {
		e.err = errUnfinished // for those who wait, if build panics
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

// entry finds or makes an entry, and drops those that were not asked for the longest time, where there is no room for all.
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

// usages are what there is of each kind.
func (c *compiled) usages() [len(kinds)]usage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.kinds
}
