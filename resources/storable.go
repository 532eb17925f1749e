package resources

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxKeyBytes is how many bytes the parts of a Key may have together. It is Postgres' bound, kept on every database so that
// objects can move: an index holds a key whole, in a third of a page, 2,704 bytes with the heads and the padding of
// its parts. Of the built-in types, only those of access control have names that may be longer than 253 bytes.
const MaxKeyBytes = 2560

// Storable returns what is wrong with a key that no database could hold an object under, by the names of the object's fields;
// nil if nothing is. kube-apiserver stores such objects, etcd's keys being bytes; where it cannot store one because of
// its size, it answers 500. Here they are invalid (422), which no client repeats.
func (k Key) Storable() field.ErrorList {
	var errs field.ErrorList
	metadata := field.NewPath("metadata")
	for _, part := range []struct{ field, value string }{{"namespace", k.Namespace}, {"name", k.Name}} {
		switch {
		case !utf8.ValidString(part.value):
			errs = append(errs, field.Invalid(metadata.Child(part.field), part.value, "must be text in UTF-8"))
		case strings.ContainsRune(part.value, 0):
			errs = append(errs, field.Invalid(metadata.Child(part.field), part.value, "may not contain the character U+0000"))
		}
	}
	if rest := MaxKeyBytes - len(k.Resource) - len(k.Namespace); len(k.Name) > rest {
		errs = append(errs, field.TooLong(metadata.Child("name"), "", max(rest, 0)))
	}
	return errs
}
