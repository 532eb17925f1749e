package resources

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"
)

// What is stored and what is shown are the same bytes, but for two kinds of objects:
//
//   - JSON that a client sends as part of an object (the data of a ControllerRevision, the parameters of a driver) is stored as it
//     was sent: with its white space, and with & and < as they are. kube-apiserver, which stores protobuf, tells an object
//     that was sent in another way apart, and shows both without white space and escaped for HTML.
//   - A Service may have a member that kube-apiserver stores and does not show; see hidden.
//
// Of these the stored bytes end with a space, and stay with the object beside Data.

// storedForm is the form of an object that has its stored bytes, where these are not its Data.
const storedForm = "stored"

// notShown marks stored bytes that are not what is shown.
const notShown = ' '

func isShown(stored []byte) bool {
	return len(stored) == 0 || stored[len(stored)-1] != notShown
}

// show makes Data, which are stored bytes, what is shown. It belongs to the making of an object.
func (o *Object) show() {
	if isShown(o.Data) {
		return
	}
	o.forms.head.Store(&form{id: storedForm, data: o.Data, next: o.forms.head.Load()})
	o.Data = shown(o.Resource, o.Data)
	o.revisionStart, o.revisionEnd, _ = RevisionSpan(o.Data)
}

// Stored returns the bytes that a database keeps of the object, of which LoadObject makes it again.
func (o *Object) Stored() []byte {
	if f := o.forms.find(storedForm); f != nil {
		return f.data
	}
	return o.Data
}

// Shown returns the object without what is stored and never shown: it decodes to what clients see.
func (o *Object) Shown() *Object {
	if o.Resource != hiding || o.forms.find(storedForm) == nil {
		return o
	}
	return LoadObject(o.Key, o.Revision, o.Data, o.Labels, o.Fields)
}

// Whole returns the object with all that is stored of it, in Data, too.
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

// escaped returns the same JSON as encoding/json writes it.
func escaped(stored []byte) []byte {
	data, err := json.Marshal(json.RawMessage(stored))
	if err != nil {
		return bytes.TrimRight(stored, string(notShown)) // it is none of ours, and is left as it is
	}
	return data
}

// hiding is the resource that has hidden members.
const hiding = "services"

// hides tells whether bytes that are to be stored have members that are not shown.
func (t *Type) hides(data []byte) bool {
	if t.Group != "" || t.Resource != hiding {
		return false
	}
	_, end := hidden(hiding, data)
	return end > 0
}

// hidden returns where the internalTrafficPolicy of an ExternalName is in the bytes of an object, the comma before it included.
// kube-apiserver takes it out of what it reads (defaultOnReadInternalTrafficPolicy), which a deletion that only marks the
// object, and an update that ends one, do not do. end is zero when there is none.
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
