package custom

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
)

// follows gives the definition the forms of the one that it takes the place of, where it shows the same; nil: that is not known. It also
// notes since when objects are written as a version shows them: what was written later than a definition was not written by an earlier
// one. gap: there were others between the two.
//
// What a webhook has made of objects is forgotten when it is no longer asked, also when it is asked again later: who brings it back has
// changed it, perhaps.
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

// currentForm is under what an object keeps whether it is stored as it is shown.
const currentForm = "stored as shown"

var yes, no = []byte{1}, []byte{}

// current tells whether an object, which is stored in the version of the type, has the bytes that the type shows: a schema that
// changed since it was written may prune it or add defaults. Who asks again is told without a look at the object.
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
