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

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	kjson "sigs.k8s.io/json"
)

// Objects without a Go type may be stored in another version than the one that a request is for, and who converts them may be
// down. Whoever needs no more of an object than its metadata (a deletion, the garbage collector) works on it as it is kept, in
// the version that it is stored in, and leaves it in that.

// IsIn tells whether an object is stored in a version.
func (t *Type) IsIn(o *Object, gv schema.GroupVersion) bool {
	return bytes.HasPrefix(o.Stored(), t.Head(gv))
}

// decodeKept returns a stored object in a form of which the metadata can be changed: that in which it is kept, or the hub form
// where that is at hand.
func (t *Type) decodeKept(o *Object) (runtime.Object, error) {
	if t.Untyped {
		return t.DecodeStored(o)
	}
	return t.DecodeHub(o)
}

// keptDraft encodes what decodeKept has returned.
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

// of is the update of a live object. In which version that is stored may be another one in the next round.
func (u update) of(live *Object) update {
	t := u.Type
	if !u.MetadataElsewhere || t.Converted == nil || t.Hub == t.StorageVersion && t.IsIn(live, t.Hub) {
		return u
	}
	kept := *u.UpdateRequest
	kept.Metadata, kept.Strategy = true, metadataStrategy{t.UpdateStrategy}
	u.UpdateRequest = &kept
	return u
}

// whenMore makes an update of metadata alone a plain one where admission has changed more than that: the object is then held against
// the rules of its type, in the version of that. The three it returns take the place of the three it is given.
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
	u.Type.Scheme.Default(obj) // and nothing is dropped yet: what is wrong is to be refused
	existing, err = u.Type.DecodeHubInContext(ctx, live)
	return u, obj, existing, err
}

// sameRest tells whether two objects differ in nothing but metadata.
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

// metadataStrategy is the rules of updates that change nothing but metadata, which is validated whatever the strategy is. The
// rest of the object, which may be in a version with other rules, was validated when it was written.
type metadataStrategy struct{ rest.RESTUpdateStrategy }

// ValidateUpdate finds nothing.
func (metadataStrategy) ValidateUpdate(context.Context, runtime.Object, runtime.Object) field.ErrorList {
	return nil
}

// AsStored is a type in the version that an object is stored in, which shows every object as it is stored, in whatever version. It is
// good for nothing else.
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

// ShowsStored tells whether objects are shown as they are stored, whatever version that is.
func (s *Served) ShowsStored() bool { return s.asStored }

// ConvertedForm is the name of the form that has an object in another version, where somebody else was asked for it. Who moves
// objects keeps it.
const ConvertedForm = "converted"

// ConvertedIn is the id of that form in the version of the type.
func (t *Type) ConvertedIn() string { return t.FormID(ConvertedForm+" "+t.Hub.String(), true) }

// isConverted tells whether a form is one of these.
func isConverted(id string) bool { return strings.HasPrefix(id, ConvertedForm+" ") }

// ConversionPatience is how long a single object waits for somebody else to convert it, its turn included, and how long any
// request of one who converts may take.
const ConversionPatience = 30 * time.Second

// ErrImpatient is why a conversion is waited for no longer, whatever time the request has left.
var ErrImpatient = errors.New("a conversion takes too long")

// Patiently returns the context of a conversion, which ends with ErrImpatient. It ends a second after ConversionPatience: upstream's clients of
// webhooks are as patient, and say why they wait no longer.
func Patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, ConversionPatience+time.Second, ErrImpatient)
}

// decodeConverted returns an object in the hub form, which somebody else makes.
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

// convertedAt gives an object, which is the same state as another one under another revision, what others have made of that:
// nobody changes a resourceVersion.
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
