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
	return d.coerceBy(u, coercion{ReturnUnknownFieldPaths: track}, func(version string) (*structuralschema.Structural, bool, error) {
		s, err := d.schema(version)
		if errors.Is(err, errNoVersion) {
			return nil, true, nil // which is said elsewhere: the object has no fields that are known
		}
		if err != nil {
			return nil, false, err
		}
		return s.structural, true, nil
	})
}

// settle does to an object that is to be stored, or was converted, what coerce does to one that was sent: whoever made it, a patch, a webhook
// or the server itself. What is in a version that there is not any more keeps its fields.
func (d *definition) settle(u *unstructured.Unstructured) error {
	_, err := d.coerceBy(u, coercion{}, d.known)
	return err
}

// repair does the same to an object that was stored, but that it drops what is wrong: there is nobody to be told.
func (d *definition) repair(u *unstructured.Unstructured) {
	_, _ = d.coerceBy(u, coercion{DropInvalidFields: true}, d.known)
}

// coercion is how upstream coerces.
type coercion = schemaobjectmeta.CoerceOptions

// schemaFinder returns the schema of a version to coerce by; not ok: there is nothing to coerce by.
type schemaFinder func(version string) (s *structuralschema.Structural, ok bool, err error)

// known returns the schema of a version, if it is known what that has in it.
func (d *definition) known(version string) (s *structuralschema.Structural, ok bool, err error) {
	v, err := d.schema(version)
	if err != nil || v.structural == nil {
		return nil, false, nil //nolint:nilerr // validation refuses what is in such a version
	}
	return v.structural, true, nil
}

// coerceBy coerces by the schema of a version; where that is not known, metadata alone.
func (d *definition) coerceBy(u *unstructured.Unstructured, how coercion, find schemaFinder) (unknown []string, err error) {
	kind, hasKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	gvk := u.GroupVersionKind()
	own := gvk.Group == d.group && kind == d.kind
	if own && d.clean(gvk.Version, u.Object) {
		return nil, nil
	}
	meta, hasMeta, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u.Object, schemaobjectmeta.ObjectMetaOptions{
		DropMalformedFields: how.DropInvalidFields, ReturnUnknownFieldPaths: how.ReturnUnknownFieldPaths})
	if err != nil {
		return nil, err
	}
	if own {
		s, ok, err := find(gvk.Version)
		if err != nil {
			return nil, err
		}
		if ok {
			paths, err := coerceFields(u.Object, s, how)
			if err != nil {
				return nil, err
			}
			unknown = append(unknown, paths...)
		}
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

// coerceFields does what coerce does below the metadata of an object.
func coerceFields(object map[string]any, s *structuralschema.Structural, how coercion) (unknown []string, err error) {
	unknown = structuralpruning.PruneWithOptions(object, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: how.ReturnUnknownFieldPaths})
	structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, s)
	wrong, paths := schemaobjectmeta.CoerceWithOptions(nil, object, s, false, how)
	if wrong != nil {
		return nil, wrong
	}
	return append(unknown, paths...), nil
}

// prune drops what the schema of a version does not know.
func (d *definition) prune(version string, object map[string]any) {
	if d.clean(version, object) {
		return
	}
	if s, ok, _ := d.known(version); ok {
		structuralpruning.Prune(object, s, true)
	}
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
// the same, but for what their schemas do not know, which is there still. Defaults are those of the version that objects are stored in, and
// of the one that they were sent in. It fails where there is no such version.
func (d *definition) convert(ctx context.Context, object map[string]any, _, to string) error {
	if d.conversions != nil {
		ctx, cancel := resources.Patiently(ctx)
		defer cancel()
		made, err := d.ask(ctx, []unstructured.Unstructured{{Object: object}}, to)
		if err != nil {
			return err
		}
		content := maps.Clone(made[0].Object)
		clear(object)
		maps.Copy(object, content)
	}
	_, err := d.schema(to)
	if errors.Is(err, errNoVersion) {
		return fmt.Errorf("request to convert CR to an invalid group/version: %s", d.gv(to)) // as upstream's converter
	}
	return err
}
