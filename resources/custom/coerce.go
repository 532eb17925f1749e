package custom

import (
	"context"
	"errors"
	"fmt"
	"maps"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	schemaobjectmeta "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	structuralpruning "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// coerce does to an object of the definition that was just read what decoding into a Go type would do to others: it checks and
// prunes metadata, prunes fields that the schema of its version does not know, and drops nulls where null is not allowed and
// there is no default. With track it returns the paths of the fields that nobody knows.
//
// Errors say what is wrong with the metadata of the object, or of one within it.
func (d *definition) coerce(u *unstructured.Unstructured, track bool) (unknown []string, err error) {
	kind, hasKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	if gvk := u.GroupVersionKind(); gvk.Group == d.group && kind == d.kind && d.clean(gvk.Version, u.Object) {
		return nil, nil
	}
	meta, hasMeta, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u.Object, schemaobjectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: track})
	if err != nil {
		return nil, err
	}
	if gvk := u.GroupVersionKind(); gvk.Group == d.group && kind == d.kind {
		s, err := d.schema(gvk.Version)
		if errors.Is(err, errNoVersion) {
			s, err = &versionSchema{}, nil // which is said elsewhere: the object has no fields that are known
		}
		if err != nil {
			return nil, err
		}
		unknown = append(unknown, structuralpruning.PruneWithOptions(u.Object, s.structural, true,
			structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: track})...)
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s.structural)
		wrong, paths := schemaobjectmeta.CoerceWithOptions(nil, u.Object, s.structural, false, schemaobjectmeta.CoerceOptions{ReturnUnknownFieldPaths: track})
		if wrong != nil {
			return nil, wrong
		}
		unknown = append(unknown, paths...)
	}
	if hasKind {
		u.SetKind(kind)
	}
	if hasVersion {
		u.SetAPIVersion(apiVersion)
	}
	if hasMeta {
		if err := schemaobjectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, err
		}
	}
	return unknown, nil
}

// complete makes an object that was stored, converted or changed one of a version: it prunes what the version's schema does not
// know, and fills in its defaults. It does nothing to one that it was done to.
func (d *definition) complete(version string, object map[string]any) {
	if !fastpath.CustomDefaults.On() || !d.plan(version).Complete(object) {
		d.prune(version, object)
		d.fill(version, object)
	}
}

// prune drops what the schema of a version does not know, and nulls where null is not allowed and there is no default.
func (d *definition) prune(version string, object map[string]any) {
	if fastpath.CustomDefaults.On() && d.plan(version).Clean(object) {
		return
	}
	s, err := d.schema(version)
	if err != nil || s.structural == nil {
		return
	}
	structuralpruning.Prune(object, s.structural, true)
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, s.structural)
}

// fill fills in the defaults of a version. It drops nothing: a null that is not allowed, which a patch of server-side apply says,
// is for validation to refuse.
func (d *definition) fill(version string, object map[string]any) {
	if fastpath.CustomDefaults.On() {
		if d.plan(version).Fill(object) {
			return
		}
		fastpath.CustomDefaults.Fallback()
	}
	if s, err := d.schema(version); err == nil && s.structural != nil {
		structuraldefaulting.Default(object, s.structural)
	}
}

// convert makes an object of one version one of another, apiVersion aside: the webhook of the definition does, or all versions look
// the same, but for what their schemas do not know. Defaults are those of the version that objects are stored in, and of the one that
// they were sent in.
func (d *definition) convert(ctx context.Context, object map[string]any, _, to string) error {
	if d.conversions != nil {
		ctx, cancel := context.WithTimeout(ctx, resources.ConversionPatience)
		defer cancel()
		made, err := d.ask(ctx, []unstructured.Unstructured{{Object: object}}, to)
		if err != nil {
			return err
		}
		content := maps.Clone(made[0].Object)
		clear(object)
		maps.Copy(object, content)
	}
	return d.fit(to, object)
}

// fit drops from an object that was converted what the schema of its version does not know. It fails where there is no such version.
func (d *definition) fit(version string, object map[string]any) error {
	_, err := d.schema(version)
	if errors.Is(err, errNoVersion) {
		return fmt.Errorf("request to convert CR to an invalid group/version: %s", d.gv(version)) // as upstream's converter
	}
	d.prune(version, object)
	return err
}
