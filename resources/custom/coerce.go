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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// coerce treats a decoded object of the definition as decoding into a Go type would: it checks and prunes metadata, prunes fields that the
// schema of its version does not have, and drops nulls where null is not allowed and there is no default. With track it returns the paths of
// the unknown fields.
//
// Errors describe invalid metadata of the object, or of one within it.
func (d *definition) coerce(u *unstructured.Unstructured, track bool) (unknown []string, err error) {
	return d.coerceBy(u, coercion{ReturnUnknownFieldPaths: track}, func(version string) (*structuralschema.Structural, bool, error) {
		s, err := d.schema(version)
		if errors.Is(err, errNoVersion) {
			return nil, true, nil // reported elsewhere: the object has no known fields
		}
		if err != nil {
			return nil, false, err
		}
		return s.structural, true, nil
	})
}

// settle does the same as coerce for an object that is to be stored, or was converted, whether a patch, a webhook or the server made it. An
// object in a version that no longer exists keeps its fields.
func (d *definition) settle(u *unstructured.Unstructured) error {
	_, err := d.coerceBy(u, coercion{}, d.known)
	return err
}

// repair does the same for a stored object, but drops invalid fields: no client could be told of them. It sets the generation of an object
// that was stored before custom resources had one, as kube-apiserver does.
func (d *definition) repair(u *unstructured.Unstructured) {
	if _, err := d.coerceBy(u, coercion{DropInvalidFields: true}, d.known); err == nil && d.owns(u) {
		repairGeneration(u)
	}
}

func repairGeneration(u *unstructured.Unstructured) {
	if _, there := u.Object["metadata"]; there && u.GetGeneration() == 0 {
		u.SetGeneration(1)
	}
}

// owns reports whether an object is of the definition's kind. Options of deletions, for one, are not.
func (d *definition) owns(u *unstructured.Unstructured) bool {
	return u.GroupVersionKind().GroupKind() == schema.GroupKind{Group: d.group, Kind: d.kind}
}

// coercion has upstream's options of coercion.
type coercion = schemaobjectmeta.CoerceOptions

// schemaFinder returns the schema of a version for the coercion, nil for one that has no fields; without ok only metadata is coerced.
type schemaFinder func(version string) (s *structuralschema.Structural, ok bool, err error)

// known returns the schema of a version; ok is false if there is no such version, or no structural schema of it.
func (d *definition) known(version string) (s *structuralschema.Structural, ok bool, err error) {
	v, err := d.schema(version)
	if err != nil || v.structural == nil {
		return nil, false, nil //nolint:nilerr // validation refuses objects of such a version
	}
	return v.structural, true, nil
}

// coerceBy coerces by the schema of a version; without a schema it coerces metadata only.
func (d *definition) coerceBy(u *unstructured.Unstructured, how coercion, find schemaFinder) (unknown []string, err error) {
	own := d.owns(u)
	if own && d.clean(u.GroupVersionKind().Version, u.Object) {
		return nil, nil
	}
	return coerceWhole(u, own, !d.unpruned, how, find)
}

// coerceWhole is coerceBy for an object whose kind is the definition's own, or not. Without prunes, fields that the schema does not have stay.
func coerceWhole(u *unstructured.Unstructured, own, prunes bool, how coercion, find schemaFinder) (unknown []string, err error) {
	kind, hasKind, err := unstructured.NestedString(u.Object, "kind")
	if err != nil {
		return nil, err
	}
	apiVersion, hasVersion, err := unstructured.NestedString(u.Object, "apiVersion")
	if err != nil {
		return nil, err
	}
	meta, hasMeta, unknown, err := schemaobjectmeta.GetObjectMetaWithOptions(u.Object, schemaobjectmeta.ObjectMetaOptions{
		DropMalformedFields: how.DropInvalidFields, ReturnUnknownFieldPaths: how.ReturnUnknownFieldPaths})
	if err != nil {
		return nil, err
	}
	if own {
		s, ok, err := find(u.GroupVersionKind().Version)
		if err != nil {
			return nil, err
		}
		if ok {
			paths, err := coerceFields(u.Object, s, prunes, how)
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

// coerceFields coerces the fields of an object other than metadata.
func coerceFields(object map[string]any, s *structuralschema.Structural, prunes bool, how coercion) (unknown []string, err error) {
	if prunes {
		unknown = structuralpruning.PruneWithOptions(object, s, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: how.ReturnUnknownFieldPaths})
		structuraldefaulting.PruneNonNullableNullsWithoutDefaults(object, s)
	}
	wrong, paths := schemaobjectmeta.CoerceWithOptions(nil, object, s, false, how)
	if wrong != nil {
		return nil, wrong
	}
	return append(unknown, paths...), nil
}

// prune drops the fields that the schema of a version does not have.
func (d *definition) prune(version string, object map[string]any) {
	if d.unpruned || d.clean(version, object) {
		return
	}
	if s, ok, _ := d.known(version); ok {
		structuralpruning.Prune(object, s, true)
	}
}

// fill sets the defaults of a version. It drops nothing: validation has to refuse a null that is not allowed, as in a patch of server-side
// apply.
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

// convert converts an object to another version, except for apiVersion: by the definition's webhook, or without a change. Without a webhook
// the fields that the schema lacks are still there. The defaults are those of the storage version and of the version that was sent. It fails
// if the version does not exist.
func (d *definition) convert(ctx context.Context, object map[string]any, _, to string) error {
	if d.conversions != nil {
		ctx, cancel := resources.Patiently(ctx)
		defer cancel()
		if err := d.conversions.enter(ctx); err != nil {
			return unconverted(ctx, err)
		}
		defer d.conversions.leave()
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
