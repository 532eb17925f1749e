package custom

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
)

// follows gives the definition the forms of its predecessor where both show the same bytes; nil: the predecessor is not known. It also
// notes the revision since which objects are written in the form that a version shows: an object that was written after a definition was
// not written by an earlier one. gap: there were other definitions between the two.
//
// The results of a webhook are dropped when it is no longer used, and not used again if it is later restored: it may have changed
// meanwhile.
func (d *definition) follows(before *definition, gap bool) {
	for _, t := range d.types {
		d.since.set(t.version, d.revision)
		if before == nil || before.types.of(t.version) == nil || !d.showsAs(before, t.version, gap) {
			continue
		}
		t.is.Form = before.types.of(t.version).Form
		if !gap {
			d.since.set(t.version, before.since.of(t.version))
		}
	}
}

// currentForm is the form that records whether an object is stored as it is shown.
const currentForm = "stored as shown"

var yes, no = []byte{1}, []byte{}

// current reports whether an object, which is stored in the version of the type, has the bytes that the type shows: a schema that
// changed since the object was written may prune it or add defaults. The answer is kept with the object.
func (d *definition) current(t *resources.Type, o *resources.Object) bool {
	version := t.Hub.Version
	if o.Revision >= d.since.of(version) {
		return true
	}
	is, err := o.Form(t.FormID(currentForm, true), func() ([]byte, error) {
		var object map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(o.Data, &object); err != nil {
			return nil, err
		}
		d.repair(&unstructured.Unstructured{Object: object})
		d.fill(version, object)
		data, err := json.Marshal(object)
		if err != nil || !bytes.Equal(data, o.Data) {
			return no, err
		}
		return yes, nil
	})
	return err == nil && len(is) > 0
}
