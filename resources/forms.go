package resources

import (
	"runtime"
	"sync/atomic"
)

// FormsRoom is how many bytes Object.FormIfRoom keeps of all objects together. A list of a hundred thousand objects would
// otherwise leave as much memory behind as the objects take themselves.
const FormsRoom = 32 << 20

// formCache is a list of the encodings made so far: a handful at most, so that a walk beats a map, and read without a
// lock.
type formCache struct{ head atomic.Pointer[form] }

type form struct {
	id   string
	data []byte
	next *form
}

// find returns an encoding that was kept, or nil.
func (c *formCache) find(id string) *form { return c.head.Load().find(id) }

func (f *form) find(id string) *form {
	for ; f != nil; f = f.next {
		if f.id == id {
			return f
		}
	}
	return nil
}

// get returns an encoding, and keeps one that it has to build if keep says so.
func (c *formCache) get(id string, build func() ([]byte, error), keep func([]byte) bool) ([]byte, error) {
	for {
		head := c.head.Load()
		if f := head.find(id); f != nil {
			return f.data, nil
		}
		data, err := build()
		if err != nil || !keep(data) {
			return data, err
		}
		if c.head.CompareAndSwap(head, &form{id: id, data: data, next: head}) {
			return data, nil
		}
	}
}

// keptForms counts what FormIfRoom has kept.
var keptForms room

// room is a number of bytes that objects share.
type room struct{ used atomic.Int64 }

// admit counts bytes as long as the object lives, if there is room for them.
func (r *room) admit(o *Object, n int) bool {
	if r.used.Load()+int64(n) > FormsRoom {
		return false
	}
	r.used.Add(int64(n))
	runtime.AddCleanup(o, func(n int64) { r.used.Add(-n) }, int64(n))
	return true
}
