package custom

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	openapiv2 "k8s.io/apiextensions-apiserver/pkg/controller/openapi/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped"
)

// definition is a CustomResourceDefinition at a revision. It keeps the stored object, and reads parts of it when they are needed: of a
// thousand definitions few are in use.
type definition struct {
	name, group, kind string
	accepted          apiextensionsv1.CustomResourceDefinitionNames
	key               resources.Key
	revision          int64
	generation        int64                            // it changes with the spec
	object            atomic.Pointer[resources.Object] // it may be packed; see Definitions.Cool
	others            resources.Scheme
	// leaving: it is being deleted. waiting: its names are not all accepted, or it is not established.
	leaving, waiting bool
	// broken: its names are accepted, and its conversion webhook cannot be called. namespaced is its scope.
	broken, namespaced bool
	// unpruned: its objects keep the fields that its schemas do not have (spec.preserveUnknownFields). It was imported.
	unpruned bool
	// claimed are the versions that it would serve.
	claimed []string
	// sums identify the schemas of its versions, texts are their positions in its text, and compiled caches their compiled forms.
	sums     byVersion[schemaSum]
	texts    byVersion[textSpan]
	compiled *compiled
	// conversions are the conversions by its webhook, which lines connects to; nil: there is no webhook.
	conversions *conversions
	lines       *lines
	// differs is called with a type for which the webhook gives other bytes of an object than before a change of the definition.
	differs func(*resources.Type)
	// who identifies the webhook.
	who    string
	origin origin

	// types are its types by version, the storage version included.
	types byVersion[*resources.Type]
	// served are the versions that requests are answered for: the claimed ones, and none before its names are accepted.
	served []string
}

// emptyDefinition is a definition of which only the object is known.
func emptyDefinition(o *resources.Object) *definition {
	d := &definition{name: o.Name, key: o.Key, revision: o.Revision}
	d.object.Store(o)
	return d
}

// newDefinition reads a definition. others has the kinds with Go types.
func newDefinition(o *resources.Object, others resources.Scheme, c *compiled, l *lines) (*definition, error) {
	d := emptyDefinition(o)
	d.others, d.compiled, d.lines = others, c, l
	crd, err := d.decode()
	if err != nil {
		return nil, err
	}
	d.sums, d.texts, d.origin = crd.sums, crd.texts, originOf(&crd.CustomResourceDefinition)
	d.generation = crd.Generation
	d.leaving, d.unpruned = crd.DeletionTimestamp != nil, crd.Spec.PreserveUnknownFields
	named, established := conditionTrue(&crd.CustomResourceDefinition, apiextensionsv1.NamesAccepted), conditionTrue(&crd.CustomResourceDefinition, apiextensionsv1.Established)
	d.waiting, d.broken = !named || !established, named && !established && invalidAuthority(crd.Spec.Conversion)
	d.namespaced, d.claimed = crd.Spec.Scope == apiextensionsv1.NamespaceScoped, claimedBy(&crd.CustomResourceDefinition)
	d.group, d.kind, d.accepted = crd.Spec.Group, crd.Status.AcceptedNames.Kind, crd.Status.AcceptedNames
	if crd.Status.AcceptedNames.Plural == "" || d.kind == "" || reserved(d.group) {
		return d, nil // not accepted
	}
	if c := crd.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		d.conversions, d.who = newConversions(d), converterOf(&crd.CustomResourceDefinition)
	}
	if err := d.makeTypes(crd); err != nil {
		return nil, fmt.Errorf("%s: %w", d.name, err)
	}
	if established || named && !d.broken {
		d.served = d.claimed
	}
	for _, t := range d.types {
		t.is.Hidden = !established
	}
	return d, nil
}

// decode reads the definition without its schemas.
func (d *definition) decode() (*bones, error) {
	crd, err := readBones(d.text(), d.compiled)
	if err != nil {
		return nil, &resources.DecodeError{Key: d.key, Err: err}
	}
	return crd, nil
}

// text is the definition in its stored form.
func (d *definition) text() []byte { return d.object.Load().Unpacked().Data }

// schemaText is the stored schema of a version, empty if there is none. It is a part of the text, and must not be changed.
func (d *definition) schemaText(version string) (text []byte, found bool) {
	span, found := d.texts.find(version)
	return span.of(d.text()), found
}

// gv is the GroupVersion of one of the definition's versions.
func (d *definition) gv(version string) schema.GroupVersion {
	return schema.GroupVersion{Group: d.group, Version: version}
}

func (d *definition) makeTypes(b *bones) error {
	crd := &b.CustomResourceDefinition
	storage := ""
	for _, v := range crd.Spec.Versions {
		if v.Storage {
			storage = v.Name
		}
	}
	fieldTypes, equivalents := d.newFieldTypes(crd), d.equivalents(crd)
	statusReset, replicas := resetFields{}, d.replicasPaths(crd)
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if !v.Served && !v.Storage {
			continue
		}
		t, err := d.makeType(crd, v, storage)
		if err != nil {
			return err
		}
		t.FieldTypes, t.Equivalents = fieldTypes, equivalents
		if status := t.Subresources["status"]; status != nil {
			statusReset.add(status.UpdateStrategy.(statusStrategy))
			status.ResetFields = statusReset
		}
		if v.Subresources != nil && v.Subresources.Scale != nil {
			t.Subresources["scale"] = newScale(t, v.Subresources.Scale, replicas)
		}
		d.types.set(v.Name, t)
	}
	return nil
}

// equivalents are the versions in which admission may ask for the objects: all of them, in their order in the definition, as in kube-apiserver.
// Nil: there is one version.
func (d *definition) equivalents(crd *apiextensionsv1.CustomResourceDefinition) (all []resources.Equivalent) {
	if len(crd.Spec.Versions) == 1 {
		return nil
	}
	for _, v := range crd.Spec.Versions {
		all = append(all, resources.Equivalent{GroupVersionKind: d.gv(v.Name).WithKind(d.kind), Subresources: subresourceKinds(v.Subresources)})
	}
	return all
}

// The values of Equivalent.Subresources, shared by all definitions.
var (
	ofStatus         = map[string]schema.GroupVersionKind{"status": {}}
	ofScale          = map[string]schema.GroupVersionKind{"scale": scaleKind}
	ofStatusAndScale = map[string]schema.GroupVersionKind{"status": {}, "scale": scaleKind}
)

func subresourceKinds(s *apiextensionsv1.CustomResourceSubresources) map[string]schema.GroupVersionKind {
	switch {
	case s == nil:
		return nil
	case s.Status != nil && s.Scale != nil:
		return ofStatusAndScale
	case s.Status != nil:
		return ofStatus
	case s.Scale != nil:
		return ofScale
	}
	return nil
}

func (d *definition) makeType(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion, storage string) (*resources.Type, error) {
	names := &crd.Status.AcceptedNames
	kind, namespaced := d.gv(v.Name).WithKind(d.kind), crd.Spec.Scope == apiextensionsv1.NamespaceScoped
	s := &untyped.Scheme{WithoutNamespace: !namespaced, Kind: kind.GroupKind(), Others: d.others, Defaults: d.fill, Conversion: d.convert,
		Coerce: d.coerce, Clean: d.isClean, Coerced: d.settle, Repair: d.repair, Prune: d.prune}
	for _, f := range v.SelectableFields {
		s.SelectableFields = append(s.SelectableFields, strings.TrimPrefix(f.JSONPath, "."))
	}
	rules, status, err := d.strategies(s, kind, namespaced, v)
	if err != nil {
		return nil, err
	}
	t := untyped.Define(d.gv(v.Name).WithResource(names.Plural), d.kind, storage, s, rules)
	t.SingularName, t.ListKind, t.ShortNames, t.Categories = names.Singular, names.ListKind, names.ShortNames, names.Categories
	t.ReturnDeletedObject = false
	reset := resetFields{}
	reset.add(rules)
	t.ResetFields = reset
	t.Form = fmt.Sprintf("%s %s %d", crd.UID, v.Name, d.revision) // follows may replace it
	t.Requires = &resources.Requirement{Key: d.key, Revision: d.revision}
	t.Current = func(o *resources.Object) bool { return d.current(t, o) }
	if d.conversions != nil {
		t.Conversion = resources.FormatRevision(d.generation) // a corrected webhook may have come with any change of the spec
		t.Converted = func(ctx context.Context, objects []*resources.Object) ([][]byte, error) {
			return d.conversions.of(ctx, t, objects)
		}
	}
	t.Table, t.TableTimeDependent = table(v)
	t.OpenAPI = d.openAPI(v, s.SelectableFields)
	t.DeprecationWarning = deprecation(crd, v)
	terminating := conditionTrue(crd, apiextensionsv1.Terminating)
	if terminating {
		t.OfferedVerbs = verbsOfTerminating
	}
	if terminating || crd.DeletionTimestamp != nil {
		t.BeforeCreate = refuseCreate
	}
	if v.Subresources != nil && v.Subresources.Status != nil {
		t.Subresources["status"] = &resources.Subresource{Name: "status", Verbs: []string{"get", "patch", "update"}, UpdateStrategy: status}
	}
	return t, nil
}

// verbsOfTerminating are the verbs in discovery while the objects of a definition are about to be removed; updates are served
// nevertheless.
var verbsOfTerminating = []string{"delete", "deletecollection", "get", "list", "watch"}

// deprecation is the warning for clients of a deprecated version.
func deprecation(crd *apiextensionsv1.CustomResourceDefinition, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", crd.Spec.Group, v.Name, crd.Spec.Names.Kind)
	newest := ""
	for _, other := range crd.Spec.Versions {
		newer := apiversion.CompareKubeAwareVersionStrings(v.Name, other.Name) < 0
		if other.Served && !other.Deprecated && newer && (newest == "" || apiversion.CompareKubeAwareVersionStrings(newest, other.Name) < 0) {
			newest = other.Name
		}
	}
	if newest != "" {
		text += fmt.Sprintf("; use %s/%s %s", crd.Spec.Group, newest, crd.Spec.Names.Kind)
	}
	return text
}

// openAPI describes a version.
func (d *definition) openAPI(v *apiextensionsv1.CustomResourceDefinitionVersion, selectable []string) *resources.OpenAPI {
	version := v.Name
	return &resources.OpenAPI{Digest: d.sums.of(version).digest, SelectableFields: selectable,
		Schema: func(v2 bool) (*spec.Schema, error) { return d.openAPIOf(version, v2) },
		Stored: func(room *[]byte) ([]byte, error) {
			return d.texts.of(version).of(d.object.Load().DataIn(room)), nil
		}}
}

// openAPIOf is the schema of a version for documents of OpenAPI; nil: the documents describe no fields. It is not kept: a document of
// all definitions needs each schema once.
func (d *definition) openAPIOf(version string, v2 bool) (*spec.Schema, error) {
	text, found := d.schemaText(version)
	if !found {
		return nil, fmt.Errorf("schema of %s in version %s: %w", d.name, version, errNoVersion)
	}
	if _, there := d.sums.find(version); !there {
		return nil, nil
	}
	// The schema as it was written: the compiled one has lost the defaults without effect.
	_, structural, err := readSchema(text)
	if err != nil {
		return nil, fmt.Errorf("schema of %s in version %s: %w", d.name, version, err)
	}
	if (structural.XPreserveUnknownFields || d.unpruned) && v2 {
		return nil, nil // kubectl would take the named fields for all fields
	}
	structural = structural.Unfold()
	if v2 {
		structural = openapiv2.ToStructuralOpenAPIV2(structural)
	}
	return structural.ToKubeOpenAPI(), nil
}

// invalidAuthority reports whether the caBundle of a webhook keeps a converter from being made. One of white space does not: it counts as an
// empty one here, though it keeps the definition from being established.
func invalidAuthority(c *apiextensionsv1.CustomResourceConversion) bool {
	return c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil &&
		len(webhook.ValidateCABundle(nil, bytes.TrimSpace(c.Webhook.ClientConfig.CABundle))) > 0
}

// conditionTrue reports whether a condition of a definition is true.
func conditionTrue(crd *apiextensionsv1.CustomResourceDefinition, typ apiextensionsv1.CustomResourceDefinitionConditionType) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == typ {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}
