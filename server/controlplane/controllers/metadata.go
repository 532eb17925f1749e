package controllers

import (
	"bytes"
	"encoding/json"
	"iter"
	"slices"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// metadata is what the garbage collector wants to know of an object.
type metadata struct {
	uid    types.UID
	owners []owner
	// deleting: its deletion was asked for.
	deleting bool
	// foreground and orphan are the garbage collector's finalizers.
	foreground, orphan bool
}

// owner is an entry of metadata.ownerReferences.
type owner struct {
	uid                    types.UID
	apiVersion, kind, name string
	// blocks is blockOwnerDeletion.
	blocks bool
}

// waits tells whether the object stays until its dependents are gone ("foreground cascading deletion").
func (m metadata) waits() bool { return m.deleting && m.foreground }

// orphans tells whether the object stays until its dependents no longer refer to it.
func (m metadata) orphans() bool { return m.deleting && m.orphan }

// plain tells whether there is nothing about the object that the graph needs.
func (m metadata) plain() bool { return len(m.owners) == 0 && !m.waits() && !m.orphans() }

var (
	ownersKey     = []byte(`"ownerReferences"`)
	deletionKey   = []byte(`"deletionTimestamp"`)
	finalizersKey = []byte(`"finalizers"`)
)

// readMetadata reads a stored object. Most have none of the fields, which a search of the bytes finds out sooner than a
// walk over them; the same words elsewhere in the object only cost the walk.
func readMetadata(data []byte) metadata {
	if !fastpath.Owners.On() {
		return decodeMetadata(data)
	}
	m := metadata{uid: types.UID(gjson.GetBytes(data, "metadata.uid").Str)}
	if bytes.Contains(data, ownersKey) {
		gjson.GetBytes(data, "metadata.ownerReferences").ForEach(func(_, ref gjson.Result) bool {
			m.owners = append(m.owners, owner{uid: types.UID(ref.Get("uid").Str), apiVersion: ref.Get("apiVersion").Str,
				kind: ref.Get("kind").Str, name: ref.Get("name").Str, blocks: ref.Get("blockOwnerDeletion").Bool()})
			return true
		})
	}
	m.deleting = isDeleting(data)
	if bytes.Contains(data, finalizersKey) {
		for f := range finalizers(data) {
			m.foreground = m.foreground || f == metav1.FinalizerDeleteDependents
			m.orphan = m.orphan || f == metav1.FinalizerOrphanDependents
		}
	}
	return m
}

// decodeMetadata does the same by encoding/json.
func decodeMetadata(data []byte) metadata {
	o := decodePartial(data)
	m := metadata{uid: o.UID, owners: ownersOf(o), deleting: o.DeletionTimestamp != nil}
	for _, f := range o.Finalizers {
		m.foreground = m.foreground || f == metav1.FinalizerDeleteDependents
		m.orphan = m.orphan || f == metav1.FinalizerOrphanDependents
	}
	return m
}

// decodePartial decodes the metadata of stored bytes, which were encoded by this program or one of its releases before.
func decodePartial(data []byte) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, o); err != nil {
		return &metav1.PartialObjectMetadata{} // as a walk over the bytes finds nothing
	}
	return o
}

func isDeleting(data []byte) bool {
	if !fastpath.Owners.On() {
		return decodePartial(data).DeletionTimestamp != nil
	}
	return bytes.Contains(data, deletionKey) && gjson.GetBytes(data, "metadata.deletionTimestamp").Exists()
}

func finalizers(data []byte) iter.Seq[string] {
	if !fastpath.Owners.On() {
		return slices.Values(decodePartial(data).Finalizers)
	}
	return func(yield func(string) bool) {
		gjson.GetBytes(data, "metadata.finalizers").ForEach(func(_, f gjson.Result) bool { return yield(f.Str) })
	}
}

// ownersOf returns what readMetadata reads of the stored form.
func ownersOf(m metav1.Object) []owner {
	var owners []owner
	for _, ref := range m.GetOwnerReferences() {
		owners = append(owners, owner{uid: ref.UID, apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name,
			blocks: ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion})
	}
	return owners
}
