package handlers

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// lifts tells whether parts of the request object may go to the store as text (resources.Lean). They may not if the audit records objects, because
// it needs the whole object.
func (q *request) lifts() bool {
	return q.served.Lean != nil && q.sub == nil && fastpath.DefinitionSchemas.On() && !q.audit.RecordsObjects()
}

// decodeLifted decodes a request object into its hub version, parts of which stay text. Nil: it must be decoded whole.
func (q *request) decodeLifted(body []byte, fieldValidation string) runtime.Object {
	lean, parts, ok := q.served.Lean.Lift(body, nil)
	if !ok {
		return nil
	}
	obj, ok := q.decodeJSON(lean, fieldValidation, false)
	if !ok || !q.served.Lean.Fill(obj, parts, 0) {
		return nil
	}
	return obj
}

func (q *request) isLean(obj runtime.Object) bool {
	return q.served.Lean != nil && q.served.Lean.IsLean(obj)
}

// existingLean decodes the live object, with parts that stay text. Nil: it must be decoded whole.
func (q *request) existingLean(live *resources.Object) runtime.Object {
	existing, parts, ok := q.served.DecodeLean(live)
	if ok && q.served.Lean.Fill(existing, parts, 0) {
		return existing
	}
	fastpath.DefinitionSchemas.Fallback()
	return nil
}

// bothWhole makes both objects whole if one of them is: otherwise they cannot be compared.
func (q *request) bothWhole(existing, sent runtime.Object) error {
	if q.isLean(existing) == q.isLean(sent) {
		return nil
	}
	if err := q.served.Lean.Restore(existing); err != nil {
		return err
	}
	return q.served.Lean.Restore(sent)
}

// applyLifted creates an object from a configuration whose parts stay text. These parts are atomic, so there are no field owners within them. Nil:
// the configuration must be applied whole.
func (p *patcher) applyLifted(empty runtime.Object) runtime.Object {
	if !p.appliesLifted() {
		return nil
	}
	if l := p.lift(nil); l != nil {
		obj, err := p.manager.Apply(empty, l.patch, p.opts.FieldManager, p.forces())
		if err == nil && p.q.served.Lean.Fill(obj, l.parts, 0) {
			return obj
		}
	}
	fastpath.DefinitionSchemas.Fallback()
	return nil
}

func (p *patcher) appliesLifted() bool {
	return p.typ == types.ApplyYAMLPatchType && fastpath.ApplyJSON.On() && p.q.lifts()
}

// lifted is an apply configuration with placeholders for its parts.
type lifted struct {
	patch *unstructured.Unstructured
	// parts are first the parts of the live object, whose number is live, and then those that only the configuration has.
	parts []string
	live  int
	// existing is the object, with placeholders numbered as in the configuration.
	existing runtime.Object
}

// lift decodes the configuration for an object with these parts. Nil: it must be decoded whole.
func (p *patcher) lift(live []string) *lifted {
	lean, parts, ok := p.q.served.Lean.Lift(p.body, live)
	l := &lifted{patch: &unstructured.Unstructured{Object: map[string]any{}}, parts: parts, live: len(live)}
	if !ok || !readsAlike(p.body) || !readStrictly(lean, &l.patch.Object) {
		return nil
	}
	return l
}

// existingLifted decodes the live object for an apply configuration; the object's parts stay text. Nil: the object must be decoded whole.
func (p *patcher) existingLifted(live *resources.Object) runtime.Object {
	p.lifted = nil
	existing, parts, ok := p.q.served.DecodeLean(live)
	if ok {
		p.lifted = p.lift(parts)
	}
	if p.lifted != nil {
		p.lifted.existing = existing.DeepCopyObject()
		if p.q.served.Lean.Fill(existing, parts, 0) {
			return existing
		}
	}
	p.lifted = nil
	fastpath.DefinitionSchemas.Fallback()
	return nil
}

// applyToLifted applies a configuration to an object from existingLifted. Nil: the configuration must be applied to the whole object, to which
// existing has been restored.
func (p *patcher) applyToLifted(existing runtime.Object) (runtime.Object, error) {
	l, lean := p.lifted, p.q.served.Lean
	p.lifted = nil
	obj, err := p.manager.Apply(l.existing, l.patch, p.opts.FieldManager, p.forces())
	if err == nil && lean.Fill(obj, l.parts, l.live) {
		return obj, nil
	}
	return nil, lean.Restore(existing)
}

// patchesLean tells whether an object whose parts stay text can be patched. A merge patch can replace or remove such parts, because they are in a
// list, which it replaces. Other patches may refer to fields in them, unless staysBelow excludes that.
func (p *patcher) patchesLean() bool {
	if applies(p.typ) || !p.q.lifts() || !fastpath.BodyKind.On() { // BodyKind decodes the result, and new definitions
		return false
	}
	if p.typ == types.MergePatchType || staysBelow(p.body, p.typ, p.q.served.Lean.Apart()) {
		return true
	}
	fastpath.DefinitionSchemas.Fallback()
	return false
}

// hasNull tells whether the JSON of a part contains a null, which upstream's library treats specially within values that a merge patch adds.
func hasNull(part string) bool {
	within := false
	for i := max(strings.IndexByte(part, '{'), 0); i < len(part); i++ {
		switch c := part[i]; {
		case c == '\\' && within:
			i++
		case c == '"':
			within = !within
		case c == 'n' && !within:
			return true
		}
	}
	return false
}

// patchedLean applies a patch to an object from existingLean. Nil: the patch must be applied to the whole object, to which existing has been
// restored.
func (p *patcher) patchedLean(ctx context.Context, existing runtime.Object, old []byte) (runtime.Object, error) {
	served := p.q.served.Lean
	if text, parts, ok := served.Lift(old, nil); ok {
		short, added := *p, 0 // all parts must remain
		if p.typ == types.MergePatchType {
			added = len(parts)
			short.body, parts, ok = served.Lift(p.body, parts)
			ok = ok && !slices.ContainsFunc(parts, hasNull)
		}
		if ok {
			if obj, err := short.patchedText(ctx, text); err == nil && served.Fill(obj, parts, added) {
				return obj, nil
			}
		}
	}
	return nil, served.Restore(existing)
}
