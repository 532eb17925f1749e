package resources

import (
	"errors"
	"fmt"
)

// TransformError says that an object cannot be encrypted as the configuration requires, or that its row in the database cannot be decrypted.
type TransformError struct {
	Key Key
	// Err is the transformer's error. kube-apiserver's clients see it unchanged.
	Err error
	// Revision is the revision of the object in the database; 0 of one that cannot be encrypted.
	Revision int64
	// Undecodable: the object was decrypted or is not encrypted, but does not decode as its type, or cannot be converted to a version of it.
	Undecodable bool
	// Deleted: the object cannot be shown to watchers of its deletion.
	Deleted bool
	// DryRun: a dry run of an update found the error; kube-apiserver gets the object for it, so the error is that of a get.
	DryRun bool
	// Among: the request asked for many objects, and this is one of them.
	Among bool
	// Others are, with Among, the errors of further objects, up to UnreadableMost in all.
	Others []*TransformError
}

// foundBy sets DryRun in an error about a stored object if the request is a dry run.
func foundBy(r *UpdateRequest, err error) error {
	var e *TransformError
	if !r.DryRun || !errors.As(err, &e) || e.Revision == 0 {
		return err
	}
	found := *e
	found.DryRun = true
	return &found
}

// DecodeError says that a stored object does not decode as its type. Only valid objects are stored, so it was damaged since.
type DecodeError struct {
	Key Key
	Err error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Key, e.Err) }

func (e *DecodeError) Unwrap() error { return e.Err }

// UnreadableMost is the greatest number of unreadable objects named in the error of a list, as in kube-apiserver.
const UnreadableMost = 100

// And returns one error for the objects of both; e may be nil.
func (e *TransformError) And(other *TransformError) *TransformError {
	if e == nil {
		return other
	}
	if len(e.Others) < UnreadableMost-1 {
		e.Others = append(e.Others, other)
	}
	return e
}

func (e *TransformError) Error() string {
	if e.Among {
		return fmt.Sprintf("unable to transform key %q: %v", e.Key.InEtcd(), e.Err)
	}
	return e.Err.Error()
}

// ConversionError says that the conversion of an object by a webhook failed.
type ConversionError struct{ Err error }

func (e *ConversionError) Error() string { return e.Err.Error() }

func (e *ConversionError) Unwrap() error { return e.Err }

func (e *TransformError) Unwrap() error { return e.Err }

// Unreadable makes the object of a row that cannot be decrypted. It has only its key and its revision: it is for the store's own state, and
// no reader gets it.
func Unreadable(key Key, revision int64, err error) *Object {
	return &Object{Key: key, Revision: revision, packing: &packing{unreadable: &TransformError{Key: key, Err: err, Revision: revision}}}
}

// Unreadable returns the reason why the object cannot be read; nil for a readable object.
func (o *Object) Unreadable() *TransformError {
	if o == nil || o.packing == nil {
		return nil
	}
	return o.packing.unreadable
}

// Unreadable returns the reason why the event cannot be delivered: the object, or its state before, cannot be read.
func (e *Event) Unreadable() *TransformError {
	err := e.Object.Unreadable()
	if err == nil {
		err = e.Prev.Unreadable()
	}
	if err != nil && e.Op == Delete {
		deleted := *err
		deleted.Deleted = true
		return &deleted
	}
	return err
}
