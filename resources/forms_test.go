package resources

import (
	"bytes"
	"maps"
	"runtime"
	"testing"
)

// Encodings for lists are kept while there is room for them, those for single objects always.
func TestFormsAreKeptWhileThereIsRoom(t *testing.T) {
	large := make([]byte, FormsRoom/3)
	built := 0
	build := func() ([]byte, error) {
		built++
		return large, nil
	}
	objects := make([]*Object, 4)
	for i := range objects {
		objects[i] = LoadObject(Key{Name: "a"}, 1, nil, nil, nil)
		for range 2 {
			if data, err := objects[i].FormIfRoom("form", build); err != nil || len(data) != len(large) {
				t.Fatal(len(data), err)
			}
		}
	}
	if last := objects[3]; built != 5 || last.Kept("form") != nil || objects[0].Kept("form") == nil {
		t.Errorf("%d were built of 3 that fit, each asked for twice, and one that does not", built)
	}
	for range 2 {
		if _, err := objects[3].Form("form", build); err != nil || objects[3].Kept("form") == nil {
			t.Fatal("not kept", err)
		}
	}
	if built != 6 {
		t.Errorf("%d were built", built)
	}
	runtime.KeepAlive(objects)
}

// The room of an object's forms is freed when the object is collected.
func TestRoomIsGivenBack(t *testing.T) {
	var r room
	o := LoadObject(Key{Name: "a"}, 1, nil, nil, nil)
	if r.admit(o, FormsRoom) == nil || r.admit(o, 1) != nil {
		t.Fatal("the room has another size")
	}
	runtime.KeepAlive(o)
	for r.used.Load() > 0 { // o is not reachable any more
		runtime.GC() // a cleanup runs some time after the collection that finds the object unreachable
		runtime.Gosched()
	}
}

func TestMovedObjectIsTheSame(t *testing.T) {
	d := draftOf(t, trickyMeta)
	d.Labels, d.Fields, d.Cells = map[string]string{"a": "b"}, map[string]string{"c": "d"}, []byte("cells")
	o := NewObject(Key{Resource: "configmaps", Name: "a"}, d, 7)
	shared := map[string]string{"a": "b"}
	moved := o.Moved(bytes.Clone, func(set map[string]string) map[string]string {
		if maps.Equal(set, shared) {
			return shared
		}
		return set
	})
	if moved.Key != o.Key || moved.Revision != o.Revision || !bytes.Equal(moved.Data, o.Data) || &moved.Data[0] == &o.Data[0] {
		t.Errorf("%+v was moved to %+v", o, moved)
	}
	if !bytes.Equal(moved.At(12345).Data, o.At(12345).Data) || string(moved.Kept(CellsForm)) != "cells" {
		t.Errorf("what was moved lacks something: %+v", moved)
	}
	if shared["a"] = "shared"; moved.Labels["a"] != "shared" || moved.Fields["c"] != "d" {
		t.Errorf("labels %v, fields %v", moved.Labels, moved.Fields)
	}
	if none := LoadObject(o.Key, 1, o.Data, nil, nil).Moved(bytes.Clone, maps.Clone); none.Kept(CellsForm) != nil {
		t.Error("moving made cells")
	}
}

// The form that a replaced type has made is dropped when another type makes it, and its room is freed.
func TestFormsOfReplacedTypes(t *testing.T) {
	o := LoadObject(Key{Name: "a"}, 1, nil, nil, nil)
	build := func() ([]byte, error) { return make([]byte, 1000), nil }
	if _, err := o.Form("kept", build); err != nil {
		t.Fatal(err)
	}
	used := keptForms.used.Load()
	var last string
	for range 100 {
		last = (&Type{Untyped: true}).FormID("cells", false)
		if _, err := o.FormIfRoom(last, build); err != nil {
			t.Fatal(err)
		}
		if _, err := o.FormIfRoom((&Type{Untyped: true}).FormID("json v1", true), build); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for f := o.forms.head.Load(); f != nil; f = f.next {
		n++
	}
	if n != 3 || o.Kept("kept") == nil || o.Kept(last) == nil {
		t.Errorf("%d forms are kept (of them the first: %v, the last: %v)", n, o.Kept("kept") != nil, o.Kept(last) != nil)
	}
	if grown := keptForms.used.Load() - used; grown != 2000 {
		t.Errorf("%d bytes count for two forms of 1000", grown)
	}
	runtime.KeepAlive(o)
}

// For a type without a Go type, encodings depend on their maker: bytes on the form of objects, cells on the type itself.
func TestFormID(t *testing.T) {
	one, two := &Type{Untyped: true, Form: "f"}, &Type{Untyped: true, Form: "f"}
	first := one.FormID("cells", false)
	if one.FormID("json", true) != two.FormID("json", true) || first == two.FormID("cells", false) || first != one.FormID("cells", false) {
		t.Error("the ids of two types of one form are wrong")
	}
	again := &Type{Untyped: true, Form: "f", Conversion: "2"}
	if one.FormID("json", true) == again.FormID("json", true) || formName(one.FormID("json", true)) != formName(again.FormID("json", true)) {
		t.Error("an object that is converted again keeps its encoding, or keeps two")
	}
	if (&Type{Form: "f"}).FormID("cells", false) != "cells" {
		t.Error("a built-in type has an id of its own")
	}
}
