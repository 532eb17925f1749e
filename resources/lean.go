package resources

import "k8s.io/apimachinery/pkg/runtime"

// Lean is for types with large parts that few rules look into: an object goes to the store with something small in their place that has
// the text of the part, which is what will be stored. Whoever wants to look at such an object as a whole has it restored before.
type Lean interface {
	// Lift returns the JSON of an object with placeholders for its parts, and these as they are to be stored, behind those that are known
	// already: equal parts have one placeholder. It is not ok where there is no part, or one is out of the ordinary: then the object
	// goes whole.
	Lift(body []byte, known []string) (lean []byte, parts []string, ok bool)
	// Fill gives the placeholders in the hub form of what a lean text says the texts that they stand for. It returns false where one of
	// the parts from the from-th on is not there, or not where it belongs; the object is then to be thrown away.
	Fill(hub runtime.Object, parts []string, from int) bool
	// Apart are the beginnings of JSON pointers below which no part is.
	Apart() []string
	// IsLean tells whether an object of the hub form has texts in place of parts.
	IsLean(hub runtime.Object) bool
	// Restore puts the parts into an object of the hub form in place of their texts.
	Restore(hub runtime.Object) error
	// Shorten takes the texts out of an object of a version, which is about to be encoded, and Insert puts them into what it was encoded to.
	Shorten(versioned runtime.Object) (parts []string)
	Insert(data []byte, parts []string) ([]byte, error)
}

// DecodeLean is DecodeHub for an object whose parts stay placeholders, of which the caller gets the texts. It is not ok where the object
// has to be read whole.
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

// Restored makes an object that a plugin is about to look at whole.
func (o objectInterfaces) Restored(obj runtime.Object) error {
	if o.t.Lean == nil || obj == nil {
		return nil
	}
	return o.t.Lean.Restore(obj)
}
