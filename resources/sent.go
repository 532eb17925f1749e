package resources

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// The stored bytes and the shown bytes are the same, except for two kinds of objects:
//
//   - JSON that a client sends as part of an object (the data of a ControllerRevision, the parameters of a driver) is stored as it
//     was sent: with its white space, and with & and < unescaped. kube-apiserver, which stores protobuf, distinguishes objects
//     whose JSON was sent in different spellings, and shows all of them without white space and escaped for HTML.
//   - A Service may have a member that kube-apiserver stores and does not show; see hidden.
//
// The stored bytes of these end with a space, and stay with the object beside Data.

// storedForm is the form with the stored bytes of an object whose Data differs from them.
const storedForm = "stored"

// notShown ends stored bytes that differ from the shown ones.
const notShown = ' '

func isShown(stored []byte) bool {
	return len(stored) == 0 || stored[len(stored)-1] != notShown
}

// show turns Data, which are stored bytes, into the shown bytes. It is part of the construction of an object.
func (o *Object) show() {
	if isShown(o.Data) {
		return
	}
	o.forms.head.Store(&form{id: storedForm, data: o.Data, next: o.forms.head.Load()})
	o.Data = shown(o.Resource, o.Data)
	o.revisionStart, o.revisionEnd, _ = RevisionSpan(o.Data)
}

// Stored returns the bytes that a database keeps of the object; LoadObject restores it from them.
func (o *Object) Stored() []byte {
	if f := o.forms.find(storedForm); f != nil {
		return f.data
	}
	return o.Data
}

// Shown returns the object without the stored parts that are never shown: it decodes to the object that clients see.
func (o *Object) Shown() *Object {
	if o.Resource != hiding || o.forms.find(storedForm) == nil {
		return o
	}
	return LoadObject(o.Key, o.Revision, o.Data, o.Labels, o.Fields)
}

// Whole returns the object with all its stored bytes in Data, too.
func (o *Object) Whole() *Object {
	if o.Resource != hiding || o.forms.find(storedForm) == nil {
		return o
	}
	return LoadObject(o.Key, o.Revision, escaped(o.Stored()), o.Labels, o.Fields)
}

func shown(resource string, stored []byte) []byte {
	data := escaped(stored)
	if start, end := hidden(resource, data); end > 0 {
		data = append(data[:start:start], data[end:]...)
	}
	return data
}

// escaped returns the same JSON in the form that encoding/json writes.
func escaped(stored []byte) []byte {
	data, err := json.Marshal(json.RawMessage(stored))
	if err != nil {
		return bytes.TrimRight(stored, string(notShown)) // not in our form; it is left unchanged
	}
	return data
}

// hiding is the resource whose objects may have hidden members.
const hiding = "services"

// hides reports whether bytes to be stored have members that are not shown.
func (t *Type) hides(data []byte) bool {
	if t.Group != "" || t.Resource != hiding {
		return false
	}
	_, end := hidden(hiding, data)
	return end > 0
}

// hidden returns the position of the internalTrafficPolicy of an ExternalName in the bytes of an object, including the comma
// before it. kube-apiserver removes it from objects that it reads (defaultOnReadInternalTrafficPolicy), except in a deletion that
// only marks the object and in an update that ends one. end is zero when there is none.
func hidden(resource string, data []byte) (start, end int) {
	if resource != hiding || gjson.Get(text(data), "spec.type").Str != "ExternalName" {
		return 0, 0
	}
	const key = `,"internalTrafficPolicy":`
	v := gjson.Get(text(data), "spec.internalTrafficPolicy")
	if start = v.Index - len(key); start < 0 || string(data[start:v.Index]) != key {
		return 0, 0
	}
	return start, v.Index + len(v.Raw)
}
