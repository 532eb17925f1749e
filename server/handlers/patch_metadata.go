package handlers

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// keepsRest makes a patch of metadata alone, of which no more than metadata is answered, one of the object in the version that is
// stored, where somebody else would have to be asked for it in that of the request: who takes finalizers off in this way, as
// kube-controller-manager does, needs nobody else.
func (p *patcher) keepsRest(h *Handlers, f codec.Format, r *resources.UpdateRequest) {
	q := p.q
	if q.served.Converted == nil || q.sub != nil || f.As != codec.AsPartial || h.Definitions == nil || !ofMetadata(p.body, p.typ) {
		return
	}
	t, ok := h.Definitions.StoredType(q.served.ResourceName())
	if !ok || t.Hub == q.served.Hub {
		return
	}
	versions := q.served.Versions
	if !slices.Contains(versions, t.Hub) {
		versions = append(slices.Clip(versions), t.Hub)
	}
	q.served = &resources.Served{Type: t, GroupVersionKind: t.StorageKind(), Versions: versions}
	q.kind, r.Type = q.served.GroupVersionKind, t
}

// ofMetadata tells whether a patch changes metadata alone.
func ofMetadata(body []byte, typ types.PatchType) bool {
	patch, only := gjson.ParseBytes(body), true
	switch typ {
	case types.MergePatchType:
		patch.ForEach(func(key, _ gjson.Result) bool {
			only = key.Str == "metadata"
			return only
		})
		return only && patch.IsObject()
	case types.JSONPatchType:
		patch.ForEach(func(_, operation gjson.Result) bool {
			only = operation.Get("path").Exists()
			operation.ForEach(func(key, value gjson.Result) bool { // of keys that are there twice the last one counts
				only = only && (key.Str != "path" && key.Str != "from" || strings.HasPrefix(value.Str, "/metadata/"))
				return only
			})
			return only
		})
		return only && patch.IsArray()
	}
	return false
}
