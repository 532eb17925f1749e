package resources

import "k8s.io/apimachinery/pkg/runtime"

// Lean is for types with large parts that few rules read: the pipeline carries an object with small placeholders for the parts, which have
// the text to be stored. A reader of the whole object restores the parts first.
type Lean interface {
	// Lift returns the JSON of an object with placeholders for its parts, and the parts as they are to be stored, appended to known: equal
	// parts have one placeholder. ok is false where there is no part, or an unusual one: the object then goes whole.
	Lift(body []byte, known []string) (lean []byte, parts []string, ok bool)
	// Fill gives the placeholders in the hub form of a lean text the texts that they stand for. It returns false where one of the parts from
	// the from-th on is missing or misplaced; the object must then be discarded.
	Fill(hub runtime.Object, parts []string, from int) bool
	// Apart are the beginnings of JSON pointers below which there are no parts.
	Apart() []string
	// IsLean reports whether an object of the hub form has texts in place of parts.
	IsLean(hub runtime.Object) bool
	// Restore replaces the texts in an object of the hub form by the parts.
	Restore(hub runtime.Object) error
	// Shorten takes the texts out of an object of a version before it is encoded, and Insert puts them into the encoded object.
	Shorten(versioned runtime.Object) (parts []string)
	Insert(data []byte, parts []string) ([]byte, error)
}

// DecodeLean is DecodeHub for an object whose parts stay placeholders; the caller gets their texts. ok is false where the object has to be
// read whole.
func (t *Type) DecodeLean(o *Object) (hub runtime.Object, parts []string, ok bool) {
	lean, parts, ok := t.Lean.Lift(o.Stored(), nil)
	if !ok {
		return nil, nil, false
	}
	versioned := t.decodeKnown(lean, t.StorageKind())
	if versioned == nil {
		return nil, nil, false
	}
	hub, err := t.ToHub(versioned)
	return hub, parts, err == nil
}

// Restored restores the parts of an object before a plugin reads it.
func (o objectInterfaces) Restored(obj runtime.Object) error {
	if o.t.Lean == nil || obj == nil {
		return nil
	}
	return o.t.Lean.Restore(obj)
}
