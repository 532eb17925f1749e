package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	kjson "sigs.k8s.io/json"
)

// Objects without a Go type may be stored in another version than the request's, and the webhook that converts them may be down. A request that
// needs only the metadata of an object (a deletion, the garbage collector) works on the stored version, and leaves the object in it.

// IsIn tells whether an object is stored in a version.
func (t *Type) IsIn(o *Object, gv schema.GroupVersion) bool {
	return bytes.HasPrefix(o.Stored(), t.Head(gv))
}

// Terminating reports whether an object has been deleted, but is kept, by finalizers for one.
func (o *Object) Terminating() bool {
	return gjson.GetBytes(o.Data, "metadata.deletionTimestamp").Exists()
}

// decodeKept returns a stored object in a form whose metadata can be changed: an object without a Go type in its stored version, any other in
// the hub form.
func (t *Type) decodeKept(o *Object) (runtime.Object, error) {
	if t.Untyped {
		return t.DecodeStored(o)
	}
	return t.DecodeHub(o)
}

// keptDraft encodes an object that decodeKept has returned.
func (t *Type) keptDraft(ctx context.Context, obj runtime.Object) (Draft, error) {
	if t.Untyped {
		return t.newDraft(ctx, obj, obj.GetObjectKind().GroupVersionKind().GroupVersion())
	}
	return t.NewDraft(ctx, obj)
}

func (u update) decode(ctx context.Context, live *Object) (runtime.Object, error) {
	if u.Metadata {
		return u.Type.decodeKept(live)
	}
	if u.Existing != nil {
		if existing := u.Existing(live); existing != nil {
			return existing, nil
		}
	}
	return u.Type.DecodeHubInContext(ctx, live)
}

func (u update) encode(ctx context.Context, obj runtime.Object) (Draft, error) {
	if u.Metadata {
		return u.Type.keptDraft(ctx, obj)
	}
	return u.Type.NewDraft(ctx, obj)
}

// of is the update of a live object. The next round may find the object stored in another version.
func (u update) of(live *Object) update {
	t := u.Type
	if t.Converted == nil || t.Hub == t.StorageVersion && t.IsIn(live, t.Hub) {
		return u
	}
	if !u.MetadataElsewhere && !(u.DeletingElsewhere && live.Terminating()) {
		return u
	}
	kept := *u.UpdateRequest
	kept.Metadata, kept.Strategy = true, metadataStrategy{t.UpdateStrategy}
	u.UpdateRequest = &kept
	return u
}

// whenMore turns an update of metadata alone into an ordinary one if admission has changed more than metadata: the object then has to satisfy
// the rules of its type, in the version of the type. The three results replace the three arguments.
func (u update) whenMore(ctx context.Context, obj, existing runtime.Object, live *Object) (update, runtime.Object, runtime.Object, error) {
	now, ok := obj.(*unstructured.Unstructured)
	before, was := existing.(*unstructured.Unstructured)
	if !ok || !was || sameRest(now.Object, before.Object) {
		return u, obj, existing, nil
	}
	whole := *u.UpdateRequest
	whole.Metadata, whole.Strategy = false, u.Type.UpdateStrategy
	u.UpdateRequest = &whole
	obj, err := u.Type.toVersion(ctx, obj, u.Type.Hub)
	if err != nil {
		return u, nil, nil, err
	}
	u.Type.Scheme.Default(obj) // nothing is dropped yet: what is invalid has to be refused
	existing, err = u.Type.DecodeHubInContext(ctx, live)
	return u, obj, existing, err
}

// sameRest reports whether two objects differ in nothing but metadata.
func sameRest(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	for name, v := range a {
		other, ok := b[name]
		if !ok || name != "metadata" && !reflect.DeepEqual(v, other) {
			return false
		}
	}
	return true
}

// metadataStrategy has the rules of updates that change nothing but metadata, which is validated with any strategy. The rest of the object,
// which may be in a version with other rules, was validated when it was written.
type metadataStrategy struct{ rest.RESTUpdateStrategy }

// ValidateUpdate finds nothing.
func (metadataStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// AsStored returns a type in the stored version of an object, which shows every object as it is stored, in whatever version. It serves no other
// purpose.
func (t *Type) AsStored(o *Object) (*Served, error) {
	var is struct{ APIVersion string }
	if err := json.Unmarshal(o.Data, &is); err != nil {
		return nil, fmt.Errorf("version of %s: %w", o.Key, err)
	}
	gv, err := schema.ParseGroupVersion(is.APIVersion)
	if err != nil {
		return nil, fmt.Errorf("version of %s: %w", o.Key, err)
	}
	shown := &Type{GroupResource: t.GroupResource, Kind: t.Kind, ListKind: t.ListKind, Namespaced: t.Namespaced, Untyped: t.Untyped, Scheme: t.Scheme,
		Serializer: t.Serializer, StorageVersion: gv, Hub: gv, New: t.New, NewList: t.NewList, Attrs: t.Attrs, Table: t.Table, TableTimeDependent: true}
	return &Served{Type: shown, GroupVersionKind: gv.WithKind(t.Kind), asStored: true}, nil
}

// ShowsStored reports whether the type shows objects as they are stored, whatever version that is.
func (s *Served) ShowsStored() bool { return s.asStored }

// ConvertedForm is the name of the form with an object in another version, as a webhook has converted it. Object.Moved keeps it.
const ConvertedForm = "converted"

// ConvertedIn is the id of that form in the version of the type.
func (t *Type) ConvertedIn() string { return t.FormID(ConvertedForm+" "+t.Hub.String(), true) }

// ConvertedEarlier returns that form of an object from before another Conversion; nil: it has none.
func (t *Type) ConvertedEarlier(o *Object) []byte {
	id := t.ConvertedIn()
	of := strings.TrimSuffix(id, t.Conversion)
	for f := o.forms.head.Load(); f != nil; f = f.next {
		if f.id != id && strings.HasPrefix(f.id, of) {
			return f.data
		}
	}
	return nil
}

// isConverted reports whether an id is one of ConvertedIn.
func isConverted(id string) bool { return strings.HasPrefix(id, ConvertedForm+" ") }

// ConversionPatience is how long a single object waits for its conversion by a webhook, its time in the queue included, and the timeout of each
// request to a conversion webhook.
const ConversionPatience = 30 * time.Second

// ErrImpatient ends the wait for a conversion, whatever time the request has left.
var ErrImpatient = errors.New("a conversion takes too long")

// Patiently returns the context of a conversion, which ends with ErrImpatient. It ends a second after ConversionPatience: upstream's webhook
// clients have the same timeout, and their error says why they stopped.
func Patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ConversionPatience+time.Second, ErrImpatient)
}

// decodeConverted returns an object in the hub form, as converted by a webhook.
func (t *Type) decodeConverted(ctx context.Context, o *Object) (runtime.Object, error) {
	ctx, cancel := Patiently(ctx)
	defer cancel()
	made, err := t.Converted(ctx, []*Object{o})
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(made[0], &u.Object); err != nil {
		return nil, fmt.Errorf("decode %s in %s: %w", o.Key, t.Hub, err)
	}
	return u, nil
}

// convertedAt gives an object, which is the same state as another one under another revision, the converted forms of that object: a conversion
// does not change the resourceVersion.
func (o *Object) convertedAt(of *Object) {
	for f := of.forms.head.Load(); f != nil; f = f.next {
		if !isConverted(f.id) {
			continue
		}
		if start, end, ok := RevisionSpan(f.data); ok {
			data, _ := WithRevision(f.data, start, end, o.Revision)
			o.forms.head.Store(&form{id: f.id, data: data, next: o.forms.head.Load()})
		}
	}
}
