package resources

import (
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
)

// FormsRoom is the number of bytes that Object.FormIfRoom keeps of all objects together. Without a bound, a list of a hundred
// thousand objects would leave as much memory in use as the objects themselves.
const FormsRoom = 32 << 20

// formCache is a linked list of the encodings made so far: a handful at most, so that a walk beats a map. It is read without a
// lock.
type formCache struct{ head atomic.Pointer[form] }

type form struct {
	id   string
	data []byte
	next *form
	// counted is set for a form that keptForms counts; it ends the count when the object is collected.
	counted *runtime.Cleanup
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

// get returns an encoding, and keeps one that it has to build: always if r is nil, else if r has room for it, as long as o lives.
// It replaces the form of the same name that an earlier type has made (Type.FormID).
func (c *formCache) get(id string, build func() ([]byte, error), r *room, o *Object) ([]byte, error) {
	for {
		head := c.head.Load()
		if f := head.find(id); f != nil {
			return f.data, nil
		}
		data, err := build()
		if err != nil {
			return nil, err
		}
		made := &form{id: id, data: data}
		if r != nil {
			if made.counted = r.admit(o, len(data)); made.counted == nil {
				return data, nil
			}
		}
		rest, replaced := head.without(formName(id))
		made.next = rest
		if c.head.CompareAndSwap(head, made) {
			replaced.uncount()
			return data, nil
		}
		made.uncount()
	}
}

// formName is the part of an id that stays the same when a type is replaced; empty for an id that no replacement changes.
func formName(id string) string {
	name, _, of := strings.Cut(id, ofType)
	if !of {
		return ""
	}
	return name
}

// without returns the list without the form of that name, and this form. The list itself is unchanged.
func (f *form) without(name string) (rest, found *form) {
	if name == "" || f == nil {
		return f, nil
	}
	if formName(f.id) == name {
		return f.next, f
	}
	after, found := f.next.without(name)
	if found == nil {
		return f, nil
	}
	return &form{id: f.id, data: f.data, next: after, counted: f.counted}, found
}

// uncount gives back the room that the form takes.
func (f *form) uncount() {
	if f != nil && f.counted != nil {
		f.counted.Stop()
		keptForms.used.Add(-int64(len(f.data)))
	}
}

// keptForms counts the bytes that FormIfRoom has kept.
var keptForms room

// room is a number of bytes that objects share.
type room struct{ used atomic.Int64 }

// admit counts bytes as long as the object lives; it returns nil if there is no room for them.
func (r *room) admit(o *Object, n int) *runtime.Cleanup {
	if r.used.Load()+int64(n) > FormsRoom {
		return nil
	}
	r.used.Add(int64(n))
	ends := runtime.AddCleanup(o, func(n int64) { r.used.Add(-n) }, int64(n))
	return &ends
}

// ofType separates the name of a form from the type that made it.
const ofType = "\x00"

// lastType is the last number that FormID gave to a type.
var lastType atomic.Int64

// FormID returns the id under which an object keeps an encoding that this type has made. Built-in types never change, so their id
// is the name. Another type may be replaced by one that encodes the same object differently; the forms of the earlier type are
// then dropped. They stay if bytes is set and both types have one Form and one Conversion, which says that the bytes of objects are
// the same, but not the columns.
func (t *Type) FormID(name string, bytes bool) string {
	switch {
	case !t.Untyped:
		return name
	case bytes && t.Form != "":
		return name + ofType + t.Form + ofType + t.Conversion
	}
	t.serial.once.Do(func() { t.serial.n = lastType.Add(1) })
	return name + ofType + "#" + strconv.FormatInt(t.serial.n, 10)
}
