// Package runs keeps runs of a list compressed, and joins them to one gzip stream.
//
// A list that is asked for again is mostly what it was: to compress it anew costs more than to send it. It is cut into runs of
// neighbours, each is compressed without a look at what stands before it and ends on a byte (what zlib calls a sync flush), and
// so compressed runs can stand one behind the other in any order: deflate is a sequence of blocks. The trailer of gzip, the
// CRC-32 and the size of the whole, follows from those of the parts (crc.go). The result is an ordinary gzip stream of one
// member.
//
//	runs.go   the runs that are kept
//	join.go   one gzip stream of runs and of bytes
//	crc.go    the CRC-32 of texts from those of their parts
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

// Cut tells whether a run ends behind an object. It goes by the object's name, so that a list is cut in the same places
// after objects came, went or changed: one write makes one run be compressed anew. Runs are of usual so many objects.
func Cut(o *resources.Object) bool {
	return maphash.String(seed, o.Name)%usual == 0
}

const (
	usual = 32
	// Longest is how many bytes of a list, at about, are in one run at most.
	Longest = 1 << 20
)

var seed = maphash.MakeSeed()

// Run is a part of a list, compressed.
type Run struct {
	data  []byte // deflate blocks that end on a byte; none is the last
	crc   uint32
	size  uint64 // uncompressed
	shift uint32 // of size
}

// Form is what a run is of besides the objects: a type, and how it is written. Values are compared.
type Form struct {
	Type *resources.Type
	Name string
}

// Cache keeps runs, the ones that were used last, as far as there is room.
type Cache struct {
	room int // bytes

	mu    sync.Mutex
	used  int // bytes of those that are made
	kept  map[key]*list.Element
	order list.List // of *entry; the one that was used last is in front
}

// NewCache returns a cache of so many bytes. What it takes to find a run counts.
func NewCache(room int) *Cache { return &Cache{room: room, kept: map[key]*list.Element{}} }

// key finds a run. The sum is of its objects' revisions.
type key struct {
	form Form
	sum  uint64
}

// entry is a run that is kept, or is being made.
type entry struct {
	key key
	// revisions are those of the objects. A revision is given to one object once and for all, so that with the form they
	// say what the run holds.
	revisions []int64
	make      sync.Once
	run       *Run
	err       error
	size      int // what it counts for; 0 before it is made. Of Cache.mu
}

// Get returns the run of objects, which write writes; it is made if it is not kept. Of several lists that want it at once one makes
// it. Nothing is kept of objects that have no revision, and nothing of what cannot be written.
func (c *Cache) Get(f Form, objects []*resources.Object, write func(io.Writer) error) (*Run, error) {
	e := c.find(f, objects)
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

// errUnfinished is what waiting lists get when the list that made a run panicked.
var errUnfinished = errors.New("the run was not made")

// find returns the entry of objects, which becomes the one that was used last.
func (c *Cache) find(f Form, objects []*resources.Object) *entry {
	revisions := make([]int64, len(objects))
	text := make([]byte, 0, 8*len(objects))
	for i, o := range objects {
		if o.Revision == 0 {
			return nil
		}
		revisions[i] = o.Revision
		text = binary.LittleEndian.AppendUint64(text, uint64(o.Revision))
	}
	k := key{f, maphash.Bytes(seed, text)}
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

// overhead is about how many bytes a run takes besides its data and its objects' revisions.
const overhead = 300

// made counts what was made, and lets go of what was not used for longest.
func (c *Cache) made(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.kept[e.key]
	if at == nil || at.Value != e {
		return // another run needed the room meanwhile
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

// remove lets go of an entry. The caller holds mu.
func (c *Cache) remove(at *list.Element) {
	e := c.order.Remove(at).(*entry)
	delete(c.kept, e.key)
	c.used -= e.size
}

// compressors are at the level that kube-apiserver uses, the fastest.
var compressors = sync.Pool{New: func() any {
	w, err := flate.NewWriter(nil, flate.BestSpeed)
	if err != nil {
		panic(err) // the level is a valid one
	}
	return w
}}

// compress makes a run of what write writes.
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

// summer computes the CRC-32 of what it passes on.
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
