package controllers

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
)

// metadata is the part of an object that the garbage collector uses.
type metadata struct {
	uid    types.UID
	owners []owner
	// deleting: the deletion was requested.
	deleting bool
	// foreground and orphan are the garbage collector's finalizers.
	foreground, orphan bool
}

// owner is an entry of metadata.ownerReferences.
type owner struct {
	uid                    types.UID
	apiVersion, kind, name string
	// blocks is the field blockOwnerDeletion.
	blocks bool
}

// waits tells whether the object stays until its dependents are gone ("foreground cascading deletion").
func (m metadata) waits() bool { return m.deleting && m.foreground }

// orphans tells whether the object stays until its dependents no longer refer to it.
func (m metadata) orphans() bool { return m.deleting && m.orphan }

// plain tells whether the graph does not need the object.
func (m metadata) plain() bool { return len(m.owners) == 0 && !m.waits() && !m.orphans() }

// readMetadata reads a stored object up to the end of its metadata.
func readMetadata(data []byte) metadata {
	if !fastpath.Owners.On() {
		return decodeMetadata(data)
	}
	var m metadata
	if !scanMetadata(data, m.read) {
		fastpath.Owners.Fallback()
		return decodeMetadata(data)
	}
	return m
}

// scanMetadata calls read with each member of an object's metadata. False: read returned false, or there is no metadata.
func scanMetadata(data []byte, read func(name string, text *jsonscan.Scanner) bool) (ok bool) {
	text := jsonscan.New(data)
	text.Members(func(name string) bool {
		if name != "metadata" {
			return text.Skip()
		}
		ok = text.Members(func(name string) bool { return read(name, &text) })
		return false
	})
	return ok
}

// read reads a member of metadata.
func (m *metadata) read(name string, text *jsonscan.Scanner) (ok bool) {
	switch name {
	case "uid":
		m.uid, ok = readUID(text)
		return ok
	case "deletionTimestamp":
		m.deleting = !text.Null()
		return !m.deleting || text.Skip()
	case "ownerReferences":
		return text.Elements(func() bool {
			ref, ok := readOwner(text)
			m.owners = append(m.owners, ref)
			return ok
		})
	case "finalizers":
		return text.Elements(func() bool {
			f, ok := text.Text()
			m.foreground = m.foreground || f == metav1.FinalizerDeleteDependents
			m.orphan = m.orphan || f == metav1.FinalizerOrphanDependents
			return ok
		})
	}
	return text.Skip()
}

func readOwner(text *jsonscan.Scanner) (ref owner, ok bool) {
	ok = text.Members(func(name string) (ok bool) {
		switch name {
		case "uid":
			ref.uid, ok = readUID(text)
		case "apiVersion":
			ref.apiVersion, ok = readClone(text)
		case "kind":
			ref.kind, ok = readClone(text)
		case "name":
			ref.name, ok = readClone(text)
		case "blockOwnerDeletion":
			ref.blocks = text.Word("true")
			ok = ref.blocks || text.Skip()
		default:
			ok = text.Skip()
		}
		return ok
	})
	return ref, ok
}

func readUID(text *jsonscan.Scanner) (types.UID, bool) {
	uid, ok := readClone(text)
	return types.UID(uid), ok
}

// readClone reads a string and copies it, so that it does not keep the object's bytes in memory.
func readClone(text *jsonscan.Scanner) (string, bool) {
	s, ok := text.Text()
	return strings.Clone(s), ok
}

// decodeMetadata is readMetadata by encoding/json.
func decodeMetadata(data []byte) metadata {
	o := decodePartial(data)
	m := metadata{uid: o.UID, owners: ownersOf(o), deleting: o.DeletionTimestamp != nil}
	for _, f := range o.Finalizers {
		m.foreground = m.foreground || f == metav1.FinalizerDeleteDependents
		m.orphan = m.orphan || f == metav1.FinalizerOrphanDependents
	}
	return m
}

// decodePartial decodes the metadata of stored bytes, which this or an earlier release encoded.
func decodePartial(data []byte) *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	if err := json.Unmarshal(data, o); err != nil {
		return &metav1.PartialObjectMetadata{} // as the scanner, which finds nothing then
	}
	return o
}

func isDeleting(data []byte) bool { return readMetadata(data).deleting }

// finalizers returns the finalizers of a stored object.
func finalizers(data []byte) []string {
	if !fastpath.Owners.On() {
		return decodePartial(data).Finalizers
	}
	var names []string
	if !scanMetadata(data, func(name string, text *jsonscan.Scanner) bool {
		if name != "finalizers" {
			return text.Skip()
		}
		return text.Elements(func() bool {
			f, ok := readClone(text)
			names = append(names, f)
			return ok
		})
	}) {
		fastpath.Owners.Fallback()
		return decodePartial(data).Finalizers
	}
	return names
}

// ownersOf returns the owners that readMetadata would read from the stored form.
func ownersOf(m metav1.Object) []owner {
	var owners []owner
	for _, ref := range m.GetOwnerReferences() {
		owners = append(owners, owner{uid: ref.UID, apiVersion: ref.APIVersion, kind: ref.Kind, name: ref.Name,
			blocks: ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion})
	}
	return owners
}
