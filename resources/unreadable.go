package resources

import (
	"errors"
	"fmt"
)

// TransformError says that an object cannot be encrypted as the database is to have it, or that what the database has of it cannot be
// decrypted.
type TransformError struct {
	Key Key
	// Err is what the transformer says. kube-apiserver's clients see it as it is.
	Err error
	// Revision is that of the object in the database; 0 of one that cannot be encrypted.
	Revision int64
	// Undecodable is set where the object was decrypted, or need not be, and is none of its type, or cannot be converted to a version of it.
	Undecodable bool
	// Deleted is set where the object cannot be shown to those who watch its deletion.
	Deleted bool
	// DryRun is set where a dry run of an update has found that: kube-apiserver gets the object for it.
	DryRun bool
	// Among is set where the object is one of many that were asked for.
	Among bool
	// Others are, with Among, those of the next objects, up to UnreadableMost in all.
	Others []*TransformError
}

// foundBy says of an error about an object that is stored whether it is one of a dry run.
func foundBy(r *UpdateRequest, err error) error {
	var e *TransformError
	if !r.DryRun || !errors.As(err, &e) || e.Revision == 0 {
		return err
	}
	found := *e
	found.DryRun = true
	return &found
}

// DecodeError says that what the database has of an object is none of its type. Only what is valid is stored: something has damaged it since.
type DecodeError struct {
	Key Key
	Err error
}

func (e *DecodeError) Error() string { return fmt.Sprintf("decode %s: %v", e.Key, e.Err) }

func (e *DecodeError) Unwrap() error { return e.Err }

// UnreadableMost is how many objects that cannot be read are named in the error of a list, as by kube-apiserver.
const UnreadableMost = 100

// And returns the error about the objects of both; e may be nil.
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

// ConversionError says that somebody who was asked for the conversion of an object failed.
type ConversionError struct{ Err error }

func (e *ConversionError) Error() string { return e.Err.Error() }

func (e *ConversionError) Unwrap() error { return e.Err }

func (e *TransformError) Unwrap() error { return e.Err }

// Unreadable makes the object of a row that cannot be decrypted. It has its key and its revision, and nothing else: it is for the state
// that a store keeps, and given to nobody.
func Unreadable(key Key, revision int64, err error) *Object {
	return &Object{Key: key, Revision: revision, packing: &packing{unreadable: &TransformError{Key: key, Err: err, Revision: revision}}}
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
