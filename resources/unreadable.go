package resources

import "fmt"

// TransformError says that an object cannot be encrypted as the database is to have it, or that what the database has of it cannot be
// decrypted.
type TransformError struct {
	Key Key
	// Err is what the transformer says. kube-apiserver's clients see it as it is.
	Err error
	// Among is set where the object is one of many that were asked for.
	Among bool
}

func (e *TransformError) Error() string {
	if e.Among {
		return fmt.Sprintf("unable to transform key %q: %v", e.Key.InEtcd(), e.Err)
	}
	return e.Err.Error()
}

func (e *TransformError) Unwrap() error { return e.Err }

// Unreadable makes the object of a row that cannot be decrypted. It has its key and its revision, and nothing else: it is for the state
// that a store keeps, and given to nobody.
func Unreadable(key Key, revision int64, err error) *Object {
	return &Object{Key: key, Revision: revision, packing: &packing{unreadable: &TransformError{Key: key, Err: err}}}
}

// Unreadable returns why nobody may be given the object; nil of all others.
func (o *Object) Unreadable() *TransformError {
	if o == nil || o.packing == nil {
		return nil
	}
	return o.packing.unreadable
}

// Unreadable returns why nobody may be given the event: the object cannot be read, or what it was before.
func (e *Event) Unreadable() *TransformError {
	if err := e.Object.Unreadable(); err != nil {
		return err
	}
	return e.Prev.Unreadable()
}
