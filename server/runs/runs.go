// Package runs caches compressed runs of a list, and joins them to one gzip stream.
//
// Most of a repeated list is unchanged, and compressing it again costs more than sending it. The list is cut into runs of neighbours. Each is
// compressed without reference to earlier ones and ends on a byte (zlib's sync flush), so that compressed runs can be concatenated in any order:
// deflate is a sequence of blocks. The trailer of gzip, with the CRC-32 and the size of the whole, follows from those of the parts (crc.go). The
// result is an ordinary gzip stream of one member.
//
//	runs.go   the cache of runs
//	join.go   one gzip stream of runs and bytes
//	crc.go    the CRC-32 of a text from those of its parts
package runs

import (
	"bytes"
	"container/list"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"hash/maphash"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"

	"github.com/rowlock/rowlock/resources"
)

// Cut tells whether a run ends after an object. It depends on the object's name, so that a list is cut at the same places after objects are added,
// deleted or changed: one write invalidates one run. On average a run has 32 objects (usual).
func Cut(o *resources.Object) bool {
	return maphash.String(seed, o.Name)%usual == 0
}

const (
	usual = 32
	// Longest is the approximate maximum of a list's bytes in a run.
	Longest = 1 << 20
)

var seed = maphash.MakeSeed()

// Run is a compressed part of a list.
type Run struct {
	data  []byte // deflate blocks that end on a byte, without a last one
	crc   uint32
	size  uint64 // uncompressed
	shift uint32 // shift(size)
}

// Cache has the most recently used runs, as far as there is room.
type Cache struct {
	room int // bytes

	mu    sync.Mutex
	used  int // bytes of finished runs
	kept  map[key]*list.Element
	order list.List // of *entry; most recently used first
}

// NewCache returns a cache of that many bytes, the overhead of its entries included.
func NewCache(room int) *Cache { return &Cache{room: room, kept: map[key]*list.Element{}} }

// key identifies a run. sum is a hash of its objects' revisions.
type key struct {
	form string
	sum  uint64
}

// entry is a run that is cached, or being made.
type entry struct {
	key key
	// revisions are those of the objects. A revision belongs to one object forever, so that revisions and form determine the run's contents.
	revisions []int64
	make      sync.Once
	run       *Run
	err       error
	size      int // bytes in used; 0 before the run is made; guarded by Cache.mu
}

// Get returns the run of objects, as written by write, from the cache or made. form identifies the type and the encoding; it is a text, because the
// cache must keep no type alive that is replaced or gone. If several lists need a run at once, one of them makes it. Runs with an object without a
// revision, and failed ones, are not cached.
func (c *Cache) Get(form string, objects []*resources.Object, write func(io.Writer) error) (*Run, error) {
	e := c.find(form, objects)
	if e == nil {
		return compress(write)
	}
	e.make.Do(func() {
		e.err = errUnfinished
		defer c.made(e)
		e.run, e.err = compress(write)
	})
	return e.run, e.err
}

// errUnfinished is the error for waiting lists when the list that makes the run panics.
var errUnfinished = errors.New("the run was not made")

// find returns the entry of objects, which becomes the most recently used one.
func (c *Cache) find(form string, objects []*resources.Object) *entry {
	revisions := make([]int64, len(objects))
	text := make([]byte, 0, 8*len(objects))
	for i, o := range objects {
		if o.Revision == 0 {
			return nil
		}
		revisions[i] = o.Revision
		text = binary.LittleEndian.AppendUint64(text, uint64(o.Revision))
	}
	k := key{form, maphash.Bytes(seed, text)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.kept[k]; ok {
		if e := at.Value.(*entry); slices.Equal(e.revisions, revisions) {
			c.order.MoveToFront(at)
			return e
		}
		c.remove(at)
	}
	e := &entry{key: k, revisions: revisions}
	c.kept[k] = c.order.PushFront(e)
	return e
}

// overhead is about the size in bytes of an entry besides its data and revisions.
const overhead = 300

// made accounts for a finished run, and evicts the least recently used ones.
func (c *Cache) made(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.kept[e.key]
	if at == nil || at.Value != e {
		return // it was evicted meanwhile
	}
	if e.err != nil {
		c.remove(at)
		return
	}
	e.size = overhead + 8*len(e.revisions) + len(e.run.data)
	c.used += e.size
	for c.used > c.room {
		c.remove(c.order.Back())
	}
}

// remove removes an entry. The caller holds mu.
func (c *Cache) remove(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.kept, e.key)
	c.used -= e.size
}

// compressors have kube-apiserver's level, the fastest.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // cannot happen: the level is valid
	}
	return w
}}

// compress makes a run of write's output.
func compress(write func(io.Writer) error) (*Run, error) {
	var data bytes.Buffer
	w := compressors.Get().(*flate.Writer)
	w.Reset(&data)
	defer func() {
		w.Reset(nil)
		compressors.Put(w)
	}()
	sum := &summer{to: w}
	if err := write(sum); err != nil {
		return nil, err
	}
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return &Run{data: bytes.Clone(data.Bytes()), crc: sum.crc, size: sum.size, shift: shift(sum.size)}, nil
}

// summer computes the CRC-32 of the bytes that it forwards.
type summer struct {
	to   io.Writer
	crc  uint32
	size uint64
}

func (s *summer) Write(p []byte) (int, error) {
	s.crc = crc32.Update(s.crc, crc32.IEEETable, p)
	s.size += uint64(len(p))
	return s.to.Write(p)
}
