package controllers

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzReadMetadata checks that reading stored bytes gives the same as decoding them, wherever else the words occur.
func FuzzReadMetadata(f *testing.F) {
	f.Add("uid", "name", "foregroundDeletion", "value", uint8(0xff))
	f.Add("", "ownerReferences", "orphan", `"finalizers":["orphan"]`, uint8(0x55))
	f.Add(`"`, "<é>\\", "deletionTimestamp", `"metadata":{"uid":"other"}`, uint8(3))
	f.Fuzz(func(t *testing.T, uid, name, finalizer, value string, has uint8) {
		var o metav1.PartialObjectMetadata
		o.Annotations = map[string]string{value: value, "deletionTimestamp": "ownerReferences"}
		if has&1 != 0 {
			o.UID = types.UID(uid)
		}
		for i := range has >> 1 & 3 {
			blocks := i == 1
			o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{UID: types.UID(uid), APIVersion: value, Kind: finalizer, Name: name,
				BlockOwnerDeletion: []*bool{nil, &blocks}[has>>3&1]})
		}
		if has&16 != 0 {
			now := metav1.Unix(1700000000, 0)
			o.DeletionTimestamp = &now
		}
		if has&32 != 0 {
			o.Finalizers = []string{finalizer, metav1.FinalizerOrphanDependents}
		}
		if has&64 != 0 {
			o.Finalizers = append(o.Finalizers, metav1.FinalizerDeleteDependents)
		}
		data, err := json.Marshal(&o)
		if err != nil {
			t.Fatal(err)
		}
		read := func(on bool) (metadata, bool, []string) {
			defer fastpath.Owners.Turn(on)()
			return readMetadata(data), isDeleting(data), finalizers(data)
		}
		fast, fastDeleting, fastFinalizers := read(true)
		plain, plainDeleting, plainFinalizers := read(false)
		if !reflect.DeepEqual(fast, plain) || fastDeleting != plainDeleting || !slices.Equal(fastFinalizers, plainFinalizers) {
			t.Errorf("%s: %+v %t %q, decoded %+v %t %q", data, fast, fastDeleting, fastFinalizers, plain, plainDeleting, plainFinalizers)
		}
	})
}

// Bytes of an unusual form are decoded, and count.
func TestOwnersAreCounted(t *testing.T) {
	t.Cleanup(fastpath.Owners.Turn(true))
	usual, unusual := []byte(`{"metadata":{"uid":"u","finalizers":["a","b"]}}`), []byte(`{"metadata":{"uid":"u","finalizers":null}}`)
	before := fastpath.Owners.Fallbacks()
	if got := finalizers(usual); !slices.Equal(got, []string{"a", "b"}) || readMetadata(usual).uid != "u" || fastpath.Owners.Fallbacks() != before {
		t.Errorf("got %q, and %d fallbacks", got, fastpath.Owners.Fallbacks()-before)
	}
	if got := finalizers(unusual); len(got) > 0 || readMetadata(unusual).uid != "u" || fastpath.Owners.Fallbacks() != before+2 {
		t.Errorf("got %q, and %d fallbacks", got, fastpath.Owners.Fallbacks()-before)
	}
}

// A truncated object is never stored; reading it tells whether the bytes were decoded.
func TestOwnersAreSwitched(t *testing.T) {
	for on, want := range map[bool]types.UID{true: "u", false: ""} {
		back := fastpath.Owners.Turn(on)
		if got := readMetadata([]byte(`{"metadata":{"uid":"u"},"spec":`)).uid; got != want {
			t.Errorf("on: %t: the uid is %q", on, got)
		}
		back()
	}
}

// An object may have many owners, of which one goes.
func TestManyOwners(t *testing.T) {
	const many = 100_000
	owners, refs := make([]owner, many), make([]metav1.OwnerReference, many)
	for i := range owners {
		refs[i].UID = types.UID(fmt.Sprintf("%06d", i))
		owners[i] = owner{uid: refs[i].UID, blocks: true}
	}
	var g graph
	g.clear()
	g.put(resources.Key{Name: "owner"}, metadata{uid: owners[0].uid, deleting: true, foreground: true})
	g.put(resources.Key{Name: "child"}, metadata{uid: "child", owners: owners})
	began := time.Now()
	c := g.put(resources.Key{Name: "child"}, metadata{uid: "child", owners: owners[1:]})
	left := withoutOwners(refs, owners[1:])
	t.Logf("it took %v; in quadratic time it would take a minute", time.Since(began))
	if !slices.Equal(c.look, []types.UID{owners[0].uid}) || len(left) != 1 || left[0].UID != owners[0].uid {
		t.Errorf("looks at %q, and %d are left", c.look, len(left))
	}
}
