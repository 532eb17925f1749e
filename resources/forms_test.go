package resources

import (
	"bytes"
	"maps"
	"runtime"
	"testing"
)

// Encodings that a list makes are kept while there is room for them, those of single objects always.
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

// What an object's forms took is free again when the object is gone.
func TestRoomIsGivenBack(t *testing.T) {
	var r room
	o := LoadObject(Key{Name: "a"}, 1, nil, nil, nil)
	if !r.admit(o, FormsRoom) || r.admit(o, 1) {
		t.Fatal("the room has another size")
	}
	runtime.KeepAlive(o)
	for r.used.Load() > 0 { // o is not alive any more
		runtime.GC() // a cleanup runs some time after the collection that finds the object
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
