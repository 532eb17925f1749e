package resources

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"unsafe"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Only this file knows how the bytes of stored objects are laid out. They are one JSON document without white space, with
// every key once, and are encoded in one of two ways:
//
//   - of a Go type: {"kind":…,"apiVersion":…,"metadata":{…},…}, keys in the order of the fields. Lists of such objects are
//     typed lists, whose items have neither kind nor apiVersion.
//   - without one: {"apiVersion":…,"kind":…,"metadata":{…},…}, keys in bytewise order. Lists of these keep both in every item.
//
// kube-apiserver's JSON of built-in types and of custom resources differs in the same ways.

// Head is the beginning of an object's bytes in the version gv: the names of its kind and version, up to the next key.
func (t *Type) Head(gv schema.GroupVersion) []byte {
	first, firstValue, second, secondValue := `{"kind":`, t.Kind, `,"apiVersion":`, gv.String()
	if t.Untyped {
		first, firstValue, second, secondValue = `{"apiVersion":`, gv.String(), `,"kind":`, t.Kind
	}
	head := make([]byte, 0, len(first)+len(firstValue)+len(second)+len(secondValue)+5)
	head = strconv.AppendQuote(append(head, first...), firstValue)
	head = strconv.AppendQuote(append(head, second...), secondValue)
	return append(head, ',')
}

// Item returns the bytes of an object as they stand in a list, in two parts. data begins with head.
func (t *Type) Item(data, head []byte) (open, rest []byte) {
	if t.Untyped {
		return nil, data
	}
	return openBrace, data[len(head):]
}

var openBrace = []byte("{")

// MetadataOf returns the JSON of an object's metadata; empty when it has none. The result shares memory with data, which must
// not change while it is used: a copy for each object of a list would make as much garbage as the list is long.
func MetadataOf(data []byte) string { return gjson.Get(text(data), "metadata").Raw }

// RevisionSpan finds the digits of metadata.resourceVersion. ok is false when there is none. Clients decide the values and the
// other keys, of annotations for one, so it looks for the key at its place.
func RevisionSpan(data []byte) (start, end int, ok bool) {
	v := gjson.Get(text(data), "metadata.resourceVersion")
	if v.Type != gjson.String || v.Index <= 0 || len(v.Raw) < 2 {
		return 0, 0, false
	}
	return v.Index + 1, v.Index + len(v.Raw) - 1, true
}

// text is data as a string, in the same memory.
func text(data []byte) string { return unsafe.String(unsafe.SliceData(data), len(data)) }

// DraftOf makes a draft of bytes whose metadata has PlaceholderRevision as its resourceVersion. ok is false without one.
func DraftOf(data []byte) (d Draft, ok bool) {
	d.Data = data
	d.RevisionStart, d.RevisionEnd, ok = RevisionSpan(data)
	return d, ok
}

var revisionKey = []byte(`"resourceVersion":"`)

// withoutRevision is the draft of an object that is not stored: its only resourceVersion is the one that was sent, if any.
func (d Draft) withoutRevision() Draft {
	if d.sent != "" {
		d.Data = bytes.Join([][]byte{d.Data[:d.RevisionStart-1], quoted(d.sent), d.Data[d.RevisionEnd+1:]}, nil)
		d.RevisionStart, d.RevisionEnd = 0, 0
		return d
	}
	start := d.RevisionStart - len(revisionKey)
	end := d.RevisionEnd + 1
	if end < len(d.Data) && d.Data[end] == ',' {
		end++
	} else if start > 0 && d.Data[start-1] == ',' {
		start--
	}
	d.Data = bytes.Join([][]byte{d.Data[:start], d.Data[end:]}, nil)
	d.RevisionStart, d.RevisionEnd = 0, 0
	return d
}

// UID is the metadata.uid of the object; empty for objects that are computed or cannot be read.
func (o *Object) UID() string { return gjson.Get(text(o.Data), "metadata.uid").Str }

var uidKey = []byte(`"uid":`)

// withSelfLink is the draft of an update that is not stored: it has the selfLink that was sent, before the uid.
func (d Draft) withSelfLink() Draft {
	at := gjson.Get(text(d.Data), "metadata.uid").Index - len(uidKey)
	if d.selfLink == "" || at < 0 {
		return d
	}
	member := slices.Concat([]byte(`"selfLink":`), quoted(d.selfLink), []byte(","))
	d.Data = slices.Concat(d.Data[:at], member, d.Data[at:])
	if at < d.RevisionStart {
		d.RevisionStart, d.RevisionEnd = d.RevisionStart+len(member), d.RevisionEnd+len(member)
	}
	return d
}

func quoted(s string) []byte {
	data, _ := json.Marshal(s) // a string always encodes
	return data
}

// sameState reports whether the draft equals the stored object, apart from the resourceVersion.
func (d Draft) sameState(o *Object) bool {
	stored, start, end := o.Data, o.revisionStart, o.revisionEnd
	if f := o.forms.find(storedForm); f != nil {
		stored = f.data
		start, end, _ = RevisionSpan(stored)
	}
	return bytes.Equal(d.Data[:d.RevisionStart], stored[:start]) && bytes.Equal(d.Data[d.RevisionEnd:], stored[end:])
}

// dryResult is the object that a dry run returns.
func dryResult(key Key, w Write, live *Object) *Object {
	if live == nil {
		return NewObject(key, w.Draft.withoutRevision(), 0)
	}
	return NewObject(key, w.Draft.withSelfLink(), live.Revision)
}
