package handlers

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/util/dryrun"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// patchTypes are the kinds of patch. The last needs a feature gate.
var patchTypes = []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyYAMLPatchType),
	string(types.ApplyCBORPatchType)}

// offeredPatches are the kinds of patch with an offer of encodings.
func offeredPatches(o *codec.Offer) []string {
	if o.CBOR() {
		return patchTypes
	}
	return patchTypes[:len(patchTypes)-1]
}

// RoutesPatch tells whether kube-apiserver's router accepts the Content-Type of a patch of a built-in type. It reads a list there, with spaces; its
// handler reads one media type, up to a semicolon.
func RoutesPatch(o *codec.Offer, r *http.Request) bool {
	return codec.Lists(r.Header.Get("Content-Type"), offeredPatches(o)...)
}

// patchType is the kind of patch in the Content-Type.
func (q *request) patchType() string {
	contentType, _, _ := strings.Cut(q.r.Header.Get("Content-Type"), ";")
	return contentType
}

// takesPatch tells whether the path supports a kind of patch. A strategic merge patch needs the tags of Go types.
func (q *request) takesPatch(contentType string) bool {
	if contentType == string(types.StrategicMergePatchType) && q.served.Untyped {
		return false
	}
	return slices.Contains(offeredPatches(q.offer), contentType)
}

// unknownPatch is the error for a patch of an unsupported kind.
func (q *request) unknownPatch() error {
	if !q.defined() && !RoutesPatch(q.offer, q.r) {
		return status.NotConsumed()
	}
	return status.UnsupportedMediaType(strings.Join(slices.DeleteFunc(slices.Clone(offeredPatches(q.offer)), func(t string) bool { return !q.takesPatch(t) }), ", "))
}

// applies tells whether a patch is an apply configuration.
func applies(typ types.PatchType) bool {
	return typ == types.ApplyYAMLPatchType || typ == types.ApplyCBORPatchType
}

// patch patches an object ("Updates to existing resources").
func (h *Handlers) patch(q *request) error {
	opts := &metav1.PatchOptions{}
	p := &patcher{h: h, q: q, typ: types.PatchType(q.patchType()), opts: opts}
	m := &modification{q: q, apply: p.apply}
	r := m.request()
	r.Owned = applies(p.typ)
	r.ForceCreate = r.Owned && (q.sub == nil || q.sub.AppliedNew)
	r.Decode = func() (err error) {
		if !q.takesPatch(string(p.typ)) {
			return q.unknownPatch()
		}
		m.format, p.body, err = q.begin(opts, "PatchOptions", func() field.ErrorList { return metav1validation.ValidatePatchOptions(opts, p.typ) })
		if err != nil {
			return err
		}
		if err := wellFormed(q.ctx, p.body, p.typ); err != nil {
			return err
		}
		q.audit.SentPatch(q.ctx, func() ([]byte, error) { return p.json(q.ctx) })
		p.validation, p.by = validationOf(opts.FieldValidation), managerName(opts.FieldManager, q.r.UserAgent())
		r.Options, r.DryRun = updateOptionsOf(opts), dryrun.IsDryRun(opts.DryRun)
		if p.keepsRest() {
			p.metadataElsewhere = m.format.As == codec.AsPartial
			p.deletingElsewhere = !p.metadataElsewhere
		}
		r.MetadataElsewhere, r.DeletingElsewhere = p.metadataElsewhere, p.deletingElsewhere
		r.Sent = p.sent
		if p.appliesLifted() {
			r.Existing = p.existingLifted
		} else if p.patchesLean() {
			r.Existing = q.existingLean
		}
		p.manager, err = h.manager(q)
		return err
	}
	return h.modify(m, r)
}

// wellFormed rejects invalid JSON or YAML before anything is looked up.
func wellFormed(ctx context.Context, body []byte, typ types.PatchType) error {
	switch typ {
	case types.ApplyCBORPatchType:
		return nil // apply reports it
	case types.ApplyYAMLPatchType:
		if utilyaml.IsJSONBuffer(body) {
			return nil // apply reports that, too
		}
		return codec.InTurn(ctx, body, func() error {
			if _, err := utilyaml.ToJSON(body); err != nil {
				return apierrors.NewBadRequest("error encoding patch: " + err.Error())
			}
			return nil
		})
	}
	if !json.Valid(body) {
		return apierrors.NewBadRequest("invalid JSON patch")
	}
	return nil
}

func updateOptionsOf(o *metav1.PatchOptions) *metav1.UpdateOptions {
	u := &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
	u.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("UpdateOptions"))
	return u
}

// patcher applies one patch. The result depends on the existing object alone, so that a conflict leads to another attempt.
type patcher struct {
	h          *Handlers
	q          *request
	body       []byte
	typ        types.PatchType
	opts       *metav1.PatchOptions
	manager    *fieldmanager.Manager
	validation string
	by         string
	// metadataElsewhere and deletingElsewhere are those of the UpdateRequest.
	metadataElsewhere, deletingElsewhere bool
	// lifted is the configuration while it is applied to an object whose parts stay text.
	lifted *lifted
}

// sent is a digest of the patch and everything else that its result depends on.
func (p *patcher) sent() resources.Digest {
	body := sha256.Sum256(p.body)
	return sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %t %x", p.typ, p.opts.FieldManager, p.by, p.validation, p.forces(), body))
}

// forces tells whether an apply takes over fields of other managers.
func (p *patcher) forces() bool { return p.opts.Force != nil && *p.opts.Force }

// apply returns the patched object.
func (p *patcher) apply(ctx context.Context, existing runtime.Object, json func() ([]byte, error)) (runtime.Object, error) {
	exists := hasUID(existing)
	if !exists && !applies(p.typ) {
		return nil, apierrors.NewNotFound(p.q.resource(), p.q.info.Name)
	}
	obj, err := p.patched(ctx, existing, exists, json)
	if err != nil {
		return nil, err
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, err
	}
	if m.GetUID() != "" && !exists {
		return nil, apierrors.NewConflict(p.q.resource(), p.q.info.Name, uidWithoutObject(m.GetUID()))
	}
	if err := rest.EnsureObjectNamespaceMatchesRequestNamespace(p.q.namespace(), m); err != nil {
		return nil, err
	}
	return obj, p.q.checkName(m)
}

func (p *patcher) patched(ctx context.Context, existing runtime.Object, exists bool, json func() ([]byte, error)) (runtime.Object, error) {
	if applies(p.typ) {
		return p.applyServerSide(ctx, existing, exists)
	}
	if u := p.elsewhere(existing); u != nil {
		return p.patchedElsewhere(ctx, u)
	}
	old, err := json()
	if err != nil {
		return nil, err
	}
	var obj runtime.Object
	if p.q.isLean(existing) {
		if obj, err = p.patchedLean(ctx, existing, old); err != nil {
			return nil, err
		}
	}
	if obj == nil {
		if obj, err = p.patchedText(ctx, old); err != nil {
			return nil, err
		}
	}
	return p.manager.Update(existing, obj, p.by), nil
}

// patchedText applies a patch to the versioned JSON of an object.
func (p *patcher) patchedText(ctx context.Context, old []byte) (runtime.Object, error) {
	if err := affordable(p.typ, p.body, old); err != nil {
		return nil, err
	}
	if p.typ == types.StrategicMergePatchType {
		return p.strategic(ctx, old)
	}
	return p.jsonOrMerge(ctx, old)
}

func hasUID(obj runtime.Object) bool {
	m, err := meta.Accessor(obj)
	return err == nil && m.GetUID() != ""
}
