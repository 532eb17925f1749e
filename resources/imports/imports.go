// Package imports converts values that kube-apiserver has stored to objects of the store: it finds the resource of a key, decrypts and decodes the
// value, JSON, CBOR or protobuf in whatever version, and encodes it in the store's form. It changes nothing else: there is no admission and no
// validation. An Exporter converts in the other direction.
package imports

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apiserver/pkg/storage/value"
	pvcutil "k8s.io/kubernetes/pkg/api/persistentvolumeclaim"
	"k8s.io/kubernetes/pkg/apis/core"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/custom"
	"github.com/rowlock/rowlock/resources/upstream"
)

// Importer has the types. Only one goroutine may use it.
type Importer struct {
	prefix       string // of all keys, with a slash at the end
	transformers value.ResourceTransformers
	places       map[string]*resources.Type                           // by the part of the key before namespace and name
	defined      map[string]*apiextensionsv1.CustomResourceDefinition // likewise
	asRead       func(*core.Service)
	// completing is the definition of the last custom object: keys come in order, so its schemas are compiled once. completions are by version.
	completing  *apiextensionsv1.CustomResourceDefinition
	completions map[string]func(*unstructured.Unstructured) error
}

// Skipped is the reason why a key is not imported, where nothing is lost by that.
type Skipped struct{ Why string }

func (s *Skipped) Error() string { return s.Why }

// errUnknown is the error of keys that belong to no type.
var errUnknown = errors.New("no type has this key: neither a built-in one, nor is there a definition")

// errNoText is the error of objects that could be neither changed nor deleted. Only what is stored as it was sent can be such, such as the data of
// a ControllerRevision: encoders replace such bytes in texts.
var errNoText = errors.New("it is not text in UTF-8, which is all that the store takes")

// errOwn is the error of definitions, and of their objects, whose resource is one of the server's own rows: an object would become a credential of the
// server, or an authority. No server accepts such a definition.
var errOwn = errors.New("rowlock.internal is the server's own")

const (
	crdPlural = "customresourcedefinitions"
	crdPlace  = "apiextensions.k8s.io/customresourcedefinitions"
)

// needless are the parts of keys whose values kube-apiserver makes for its own use.
var needless = map[string]string{
	"masterleases":     "which servers live, as kube-apiserver notes it",
	"peerserverleases": "which servers live, as kube-apiserver notes it",
	"ranges":           "which addresses and ports are taken, which is made of the Services",
	"health":           "is written to see whether etcd works",
}

// New makes an Importer for keys under a prefix, such as /registry. transformers decrypt encrypted values; nil: none can be decrypted.
func New(prefix string, transformers value.ResourceTransformers) (*Importer, error) {
	// Which family is the first one of the cluster shows no key. It matters for headless Services of before v1.20 only.
	asRead, err := upstream.AsRead(core.IPv4Protocol)
	if err != nil {
		return nil, err
	}
	i := &Importer{prefix: Under(prefix), transformers: transformers, places: map[string]*resources.Type{},
		defined: map[string]*apiextensionsv1.CustomResourceDefinition{}, asRead: asRead}
	err = storedTypes(func(t *resources.Type) { i.places[placeOf(t.GroupResource)] = t })
	return i, err
}

// Under returns what all keys begin with for a value of kube-apiserver's flag --etcd-prefix, as its storage makes it (k8s.io/apiserver,
// storage/etcd3): keys begin with a slash, also where the flag does not.
func Under(prefix string) string { return strings.TrimSuffix(path.Join("/", prefix), "/") + "/" }

// storedTypes calls visit for all built-in types with stored objects, in all versions, served or not.
func storedTypes(visit func(*resources.Type)) error {
	all, err := builtin.ParseRuntimeConfig(map[string]string{"api/all": "true"})
	if err != nil {
		return err
	}
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Parts{APIs: all}.Groups())
	registry.Catalog().Types(func(t *resources.Type) bool {
		if t.Stored() {
			visit(t)
		}
		return true
	})
	return nil
}

// IsEncrypted reports whether a provider of an EncryptionConfiguration has encrypted a value.
func IsEncrypted(stored []byte) bool { return bytes.HasPrefix(stored, []byte("k8s:enc:")) }

// placeOf is the part of keys before namespace and name. The servers of definitions and of APIServices, which are parts of kube-apiserver, put the
// group before the resource.
func placeOf(r schema.GroupResource) string {
	if place, ok := upstream.EtcdPrefixes[r.String()]; ok {
		return place
	}
	if r.Group == "apiextensions.k8s.io" || r.Group == "apiregistration.k8s.io" {
		return r.Group + "/" + r.Resource
	}
	return strings.ToLower(r.Resource)
}

// Definitions is the prefix of the keys of definitions of custom resources, which have to be imported before all others.
func (i *Importer) Definitions() string { return i.prefix + crdPlace + "/" }

// Unpruned are the imported definitions whose objects are not pruned (spec.preserveUnknownFields). Their objects are imported unchanged.
func (i *Importer) Unpruned() (names []string) {
	for _, d := range i.defined {
		if d.Spec.PreserveUnknownFields {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Prefix is the prefix of all keys.
func (i *Importer) Prefix() string { return i.prefix }

// Imported is an object for the store.
type Imported struct {
	Key   resources.Key
	Draft resources.Draft
}

// Import makes an object from a value. Errors: *Skipped; any other error means that the object is lost.
func (i *Importer) Import(ctx context.Context, key string, stored []byte) (Imported, error) {
	parts := strings.Split(strings.TrimPrefix(key, i.prefix), "/")
	if why, ok := needless[parts[0]]; ok {
		return Imported{}, &Skipped{why}
	}
	place, rest := parts[0], parts[1:]
	if t, d := i.places[place], i.defined[place]; t == nil && d == nil && len(rest) > 0 {
		place, rest = place+"/"+rest[0], rest[1:]
	}
	imported, err := Imported{}, errUnknown
	switch t, d := i.places[place], i.defined[place]; {
	case t != nil:
		imported, err = i.builtIn(ctx, t, key, rest, stored)
	case d != nil:
		imported, err = i.custom(ctx, d, key, rest, stored)
	case isOwn(place):
		err = errOwn // define has refused the definition
	}
	if data := imported.Draft.Data; err == nil && (!utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0) {
		err = errNoText
	}
	return imported, err
}

// open decrypts a value, which is bound to its key.
func (i *Importer) open(ctx context.Context, resource schema.GroupResource, key string, stored []byte) ([]byte, error) {
	if i.transformers == nil {
		if IsEncrypted(stored) {
			return nil, errors.New("is encrypted, and no configuration says by which key")
		}
		return stored, nil
	}
	plain, _, err := i.transformers.TransformerForResource(resource).TransformFromStorage(ctx, stored, value.DefaultContext(key))
	if err != nil {
		return nil, fmt.Errorf("decrypt it: %w", err)
	}
	return plain, nil
}

func (i *Importer) builtIn(ctx context.Context, t *resources.Type, key string, rest []string, stored []byte) (Imported, error) {
	plain, err := i.open(ctx, t.GroupResource, key, stored)
	if err != nil {
		return Imported{}, err
	}
	// The value may be in any version, with fields that this one has.
	versioned, kind, err := builtin.Codecs.UniversalDeserializer().Decode(plain, nil, nil)
	if err != nil {
		return Imported{}, fmt.Errorf("decode it: %w", err)
	}
	if kind.Kind != t.Kind {
		return Imported{}, fmt.Errorf("it is a %s, and not a %s", kind.Kind, t.Kind)
	}
	builtin.Scheme.Default(versioned)
	hub, err := t.ToHub(versioned)
	if err != nil {
		return Imported{}, fmt.Errorf("convert it: %w", err)
	}
	i.refresh(hub)
	m, err := meta.Accessor(hub)
	if err != nil {
		return Imported{}, err
	}
	if why := needlessObject(t, m.GetLabels()); why != "" {
		return Imported{}, &Skipped{why}
	}
	if err := isAt(rest, t.Namespaced, m.GetNamespace(), m.GetName()); err != nil {
		return Imported{}, err
	}
	if t.Resource == crdPlural {
		if err := i.define(hub); err != nil {
			return Imported{}, err
		}
	}
	draft, err := t.NewDraft(ctx, hub)
	return Imported{t.KeyOf(m.GetNamespace(), m.GetName()), draft}, err
}

// refresh fills in fields that kube-apiserver adds to old objects whenever it reads them (the Decorator of a storage in k8s.io/kubernetes).
func (i *Importer) refresh(hub runtime.Object) {
	switch o := hub.(type) {
	case *core.Service:
		policy := o.Spec.InternalTrafficPolicy
		i.asRead(o)
		o.Spec.InternalTrafficPolicy = policy // that of an ExternalName is stored and not shown, here too
	case *core.PersistentVolumeClaim:
		pvcutil.NormalizeDataSources(&o.Spec)
	}
}

// define records a definition, which kube-apiserver stores in an older version.
func (i *Importer) define(hub runtime.Object) error {
	d := &apiextensionsv1.CustomResourceDefinition{}
	if err := builtin.Scheme.Convert(hub.DeepCopyObject(), d, nil); err != nil {
		return fmt.Errorf("convert it: %w", err)
	}
	place := d.Spec.Group + "/" + d.Spec.Names.Plural
	if isOwn(place) {
		return errOwn
	}
	i.defined[place] = d
	return nil
}

// isOwn reports whether a group and a plural name, with a slash between, are the resource of the server's own rows. Nothing has validated them: a
// plural name may have dots.
func isOwn(place string) bool {
	group, plural, _ := strings.Cut(place, "/")
	return resources.IsOwnRow(schema.GroupResource{Group: group, Resource: plural}.String())
}

// needlessObject is the reason why an object is not imported.
func needlessObject(t *resources.Type, labels map[string]string) string {
	if t.Resource == "leases" && labels["apiserver.kubernetes.io/identity"] != "" {
		return "says which servers live, as kube-apiserver notes it"
	}
	return ""
}

// isAt compares the identity in an object with its key. kube-apiserver stores none without a name, and none in a namespace for a cluster-scoped type.
func isAt(rest []string, namespaced bool, namespace, name string) error {
	said := name
	if namespaced || namespace != "" {
		said = namespace + "/" + name
	}
	if name == "" || (namespace != "") != namespaced || strings.Join(rest, "/") != said {
		return fmt.Errorf("it is %q by its data", said)
	}
	return nil
}

func (i *Importer) custom(ctx context.Context, d *apiextensionsv1.CustomResourceDefinition, key string, rest []string, stored []byte) (Imported, error) {
	resource := schema.GroupResource{Group: d.Spec.Group, Resource: d.Spec.Names.Plural}
	plain, err := i.open(ctx, resource, key, stored)
	if err != nil {
		return Imported{}, err
	}
	u, err := decodeUntyped(plain)
	if err != nil {
		return Imported{}, fmt.Errorf("decode it: %w", err)
	}
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil || gv.Group != d.Spec.Group || u.GetKind() != d.Spec.Names.Kind {
		return Imported{}, fmt.Errorf("it is a %s of %s by its data", u.GetKind(), u.GetAPIVersion())
	}
	if err := isAt(rest, d.Spec.Scope == apiextensionsv1.NamespaceScoped, u.GetNamespace(), u.GetName()); err != nil {
		return Imported{}, err
	}
	if err := i.complete(d, gv.Version, u); err != nil {
		return Imported{}, err
	}
	u.SetResourceVersion(resources.PlaceholderRevision)
	u.SetSelfLink("")
	draft, err := encodeUntyped(u)
	if err != nil {
		return Imported{}, err
	}
	return Imported{resources.Key{Resource: resource.String(), Namespace: u.GetNamespace(), Name: u.GetName()}, draft}, nil
}

// selfDescribed is the beginning of CBOR (RFC 8949, section 3.4.6), as kube-apiserver stores custom objects where its gate CBORServingAndStorage is or
// was set.
const selfDescribed = "\xd9\xd9\xf7"

func decodeUntyped(stored []byte) (*unstructured.Unstructured, error) {
	u, unmarshal := &unstructured.Unstructured{}, kjson.UnmarshalCaseSensitivePreserveInts
	if bytes.HasPrefix(stored, []byte(selfDescribed)) {
		unmarshal = cbor.Unmarshal
	}
	return u, unmarshal(stored, &u.Object)
}

// complete changes a custom object to the form that kube-apiserver shows.
func (i *Importer) complete(d *apiextensionsv1.CustomResourceDefinition, version string, u *unstructured.Unstructured) (err error) {
	if i.completing != d {
		i.completing, i.completions = d, map[string]func(*unstructured.Unstructured) error{}
	}
	complete := i.completions[version]
	if complete == nil {
		if complete, err = custom.Completion(d, version); err != nil {
			return err
		}
		i.completions[version] = complete
	}
	return complete(u)
}

// encodeUntyped encodes an object in the layout of layout.go of resources.
func encodeUntyped(o runtime.Object) (resources.Draft, error) {
	var b bytes.Buffer
	if err := unstructured.UnstructuredJSONScheme.Encode(o, &b); err != nil {
		return resources.Draft{}, err
	}
	data := bytes.TrimRight(b.Bytes(), "\n")
	if !json.Valid(data) {
		return resources.Draft{}, errors.New("encode it: the result is no JSON")
	}
	draft, ok := resources.DraftOf(data)
	if !ok {
		return resources.Draft{}, errors.New("encode it: it has no place for a resourceVersion")
	}
	return draft, nil
}
