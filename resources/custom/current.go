package custom

import (
	"bytes"
	"encoding/json"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
)

// follows gives the definition the forms of its predecessor where both show the same bytes; nil: the predecessor is not known. It also
// sets the revision since which a version shows these bytes (Type.Since): later objects were not written by an earlier definition. gap: there
// may have been other definitions between the two.
//
// The results of a webhook are dropped when it is no longer used, and not used again if it is later restored: it may have changed
// meanwhile.
func (d *definition) follows(before *definition, gap bool) {
	if before != nil {
		d.conversions.follows(before.conversions)
	}
	for _, t := range d.types {
		t.is.Since = d.revision
		if before == nil || before.types.of(t.version) == nil || !d.showsAs(before, t.version, gap) {
			continue
		}
		t.is.Form, t.is.Renewed = before.types.of(t.version).Form, before.types.of(t.version).Renewed
		if !gap {
			t.is.Since = before.types.of(t.version).Since
		}
	}
}

// currentForm is the form that records whether an object is stored as it is shown.
const currentForm = "stored as shown"

var yes, no = []byte{1}, []byte{}

// current reports whether an object, which is stored in the version of the type, has the bytes that the type shows: a schema that
// changed since the object was written may prune it or add defaults. The answer is kept with the object.
func (d *definition) current(t *resources.Type, o *resources.Object) bool {
	if o.Revision >= t.Since {
		return true
	}
	is, err := o.Form(t.FormID(currentForm, true), func() ([]byte, error) {
		var object map[string]any
		if err := kjson.UnmarshalCaseSensitivePreserveInts(o.Data, &object); err != nil {
			return nil, err
		}
		d.repair(&unstructured.Unstructured{Object: object})
		d.fill(t.Hub.Version, object)
		data, err := json.Marshal(object)
		if err != nil || !bytes.Equal(data, o.Data) {
			return no, err
		}
		return yes, nil
	})
	return err == nil && len(is) > 0
}
