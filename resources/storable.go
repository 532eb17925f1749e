package resources

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MaxKeyBytes is the greatest size of the parts of a Key together. It is Postgres' bound, kept on every database so that
// objects can move: an index holds a whole key in a third of a page, 2,704 bytes with the headers and the padding of its
// parts. Among the built-in types, only those of RBAC have names that may be longer than 253 bytes.
const MaxKeyBytes = 2560

// Storable returns the errors of a key that no database could hold, by the names of the object's fields; nil if there are
// none. kube-apiserver stores such objects, since etcd's keys are bytes; if it cannot store one because of its size, it
// answers 500. Here they are invalid (422), which no client retries.
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
