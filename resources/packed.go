package resources

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/flate"
)

// Objects of some types are large and seldom read: definitions of custom resources have 77 KB each and compress to a seventh. A store may
// keep such an object packed, and returns it unpacked to all its readers.

// packing belongs to an object that is packed, or was made from a packed one.
type packing struct {
	bytes  []byte // the stored bytes, compressed; empty: the object is not packed
	size   int    // of the stored bytes, uncompressed
	packed *Object
	// unreadable is set for an object that cannot be read; see Unreadable.
	unreadable *TransformError
}

// packLevel compresses about as well as flate's best level, at twice the speed.
const packLevel = 5

var (
	packers   = sync.Pool{New: func() any { return newPacker() }}
	unpackers = sync.Pool{New: func() any { return flate.NewReader(bytes.NewReader(nil)) }}
)

func newPacker() *flate.Writer {
	w, err := flate.NewWriter(io.Discard, packLevel)
	if err != nil {
		panic(err) // the level is valid
	}
	return w
}

// Packed returns the object with its bytes compressed, and with empty Data: readers call Unpacked. place and share are those of Moved. It
// keeps the form for the cells.
func (o *Object) Packed(place func([]byte) []byte, share func(map[string]string) map[string]string) *Object {
	stored := o.Stored()
	var buf bytes.Buffer
	w := packers.Get().(*flate.Writer)
	defer packers.Put(w)
	w.Reset(&buf)
	_, _ = w.Write(stored) // a write into memory cannot fail
	_ = w.Close()
	packed := &Object{Key: o.Key, Revision: o.Revision, Labels: share(o.Labels), Fields: share(o.Fields),
		labelSketch: o.labelSketch, fieldSketch: o.fieldSketch, packing: &packing{bytes: place(buf.Bytes()), size: len(stored)}}
	if cells := o.forms.find(CellsForm); cells != nil {
		packed.forms.head.Store(&form{id: CellsForm, data: place(cells.data)})
	}
	return packed
}

// IsPacked reports whether a reader has to call Unpacked.
func (o *Object) IsPacked() bool {
	return o.packing != nil && o.packing.packed == nil && o.packing.unreadable == nil
}

// Length is the number of bytes of the object, unpacked. It is 0 for an object that cannot be read.
func (o *Object) Length() int {
	if o.IsPacked() {
		return o.packing.size
	}
	return len(o.Data)
}

// DataIn is Data of the object, unpacked. It unpacks into room, so the result is valid until the next use of room.
func (o *Object) DataIn(room *[]byte) []byte {
	if !o.IsPacked() {
		return o.Data
	}
	if *room = o.unpack(*room); !isShown(*room) {
		return shown(o.Resource, *room)
	}
	return *room
}

// Unpacked returns the object as it was before it was packed, except for forms, which are made again on demand. It is the object itself
// if that is not packed.
func (o *Object) Unpacked() *Object {
	if !o.IsPacked() {
		return o
	}
	whole := LoadObject(o.Key, o.Revision, o.unpack(nil), o.Labels, o.Fields)
	whole.packing = &packing{packed: o}
	if cells := o.forms.find(CellsForm); cells != nil {
		whole.forms.head.Store(&form{id: CellsForm, data: cells.data, next: whole.forms.head.Load()})
	}
	return whole
}

// unpack returns the uncompressed bytes, in room if that is large enough.
func (o *Object) unpack(room []byte) []byte {
	data, err := o.packing.unpack(room)
	if err != nil {
		panic(fmt.Sprintf("%s: what was packed in memory cannot be unpacked: %v", o.Key, err)) // only corrupted memory does this
	}
	return data
}

func (p *packing) unpack(room []byte) ([]byte, error) {
	r := unpackers.Get().(io.ReadCloser)
	defer unpackers.Put(r)
	if err := r.(flate.Resetter).Reset(bytes.NewReader(p.bytes), nil); err != nil {
		return nil, err
	}
	data := slices.Grow(room[:0], p.size)[:p.size]
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	return data, nil
}
