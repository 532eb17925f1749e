package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// keepsRest tells whether a patch changes only metadata, and a conversion webhook may be needed for the request's version or the current storage
// version. The object can then be patched in the version in which it is stored. It is if the response has only metadata, or if the object is being
// deleted: removing finalizers, by kubectl or as kube-controller-manager does it, needs no webhook.
func (p *patcher) keepsRest() bool {
	return p.q.served.Converted != nil && p.q.sub == nil && ofMetadata(p.body, p.typ)
}

// elsewhere returns the existing object if it is to be stored in the version in which it is stored (UpdateRequest.MetadataElsewhere,
// UpdateRequest.DeletingElsewhere); nil if both its version and the storage version are the request's.
func (p *patcher) elsewhere(existing runtime.Object) *unstructured.Unstructured {
	u, ok := existing.(*unstructured.Unstructured)
	switch {
	case !ok, !p.metadataElsewhere && !(p.deletingElsewhere && u.GetDeletionTimestamp() != nil),
		u.GroupVersionKind().Version == p.q.kind.Version && p.q.served.StorageVersion == p.q.kind.GroupVersion():
		return nil
	}
	return u
}

// patchedElsewhere applies a metadata patch to an object whose other fields may be in another version than the request's. The patch is applied to
// an object that has only metadata.
func (p *patcher) patchedElsewhere(ctx context.Context, existing *unstructured.Unstructured) (runtime.Object, error) {
	version, kind := p.q.kind.ToAPIVersionAndKind()
	old, err := json.Marshal(map[string]any{"apiVersion": version, "kind": kind, "metadata": existing.Object["metadata"]})
	if err != nil {
		return nil, err
	}
	if err := affordable(p.typ, p.body, old); err != nil {
		return nil, err
	}
	changed, err := p.jsonOrMerge(ctx, old)
	if err != nil {
		return nil, err
	}
	only, ok := changed.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("a patch of %s made a %T", p.q.kind, changed)
	}
	obj := existing.DeepCopy()
	obj.Object["metadata"] = only.Object["metadata"]
	manager, err := p.managerElsewhere(existing.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return manager.Update(existing, obj, p.by), nil
}

// managerElsewhere returns a field manager for another version, served or not. It is for one patch only.
func (p *patcher) managerElsewhere(kind schema.GroupVersionKind) (*fieldmanager.Manager, error) {
	c := p.h.managerConfig(p.q)
	c.Kind, c.Hub = kind, kind.GroupVersion()
	if !slices.Contains(c.Versions, c.Hub) {
		c.Versions = append(slices.Clip(c.Versions), c.Hub)
	}
	return fieldmanager.New(c)
}

// ofMetadata tells whether a patch changes only metadata.
func ofMetadata(body []byte, typ types.PatchType) bool {
	return typ != types.StrategicMergePatchType && staysBelow(body, typ, []string{"/metadata/"})
}

// staysBelow tells whether a patch touches only fields below paths, which are prefixes of JSON pointers.
func staysBelow(body []byte, typ types.PatchType, paths []string) bool {
	patch := gjson.ParseBytes(body)
	switch typ {
	case types.MergePatchType, types.StrategicMergePatchType:
		return patch.IsObject() && membersBelow(patch, "/", paths)
	case types.JSONPatchType:
		only := true
		patch.ForEach(func(_, operation gjson.Result) bool {
			only = operation.Get("path").Exists()
			operation.ForEach(func(key, value gjson.Result) bool { // the last of duplicate keys counts
				only = only && (key.Str != "path" && key.Str != "from" || isBelow(value.Str, paths))
				return only
			})
			return only
		})
		return only && patch.IsArray()
	}
	return false
}

func isBelow(pointer string, paths []string) bool {
	return slices.ContainsFunc(paths, func(path string) bool { return strings.HasPrefix(pointer, path) })
}

// inPointer escapes a name for a JSON pointer (RFC 6901, section 3).
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")

// membersBelow is staysBelow for the members of an object at a pointer.
func membersBelow(object gjson.Result, at string, paths []string) bool {
	only := true
	object.ForEach(func(key, value gjson.Result) bool {
		pointer := at + inPointer.Replace(key.Str) + "/"
		onTheWay := func(path string) bool { return strings.HasPrefix(path, pointer) }
		only = isBelow(pointer, paths) || value.IsObject() && slices.ContainsFunc(paths, onTheWay) && membersBelow(value, pointer, paths)
		return only
	})
	return only
}
