package handlers

import (
	"bytes"
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// lifts tells whether parts of the object that is sent may go to the store as text (resources.Lean). What is recorded of a request
// shows it whole.
func (q *request) lifts() bool {
	return q.served.Lean != nil && q.sub == nil && fastpath.DefinitionSchemas.On() && !q.audit.RecordsObjects()
}

// decodeLifted reads the hub form of a new object whose parts stay text. Nil: it has to be read whole.
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

// existingLean reads the live object with parts that stay text. Nil: it has to be read whole.
func (q *request) existingLean(live *resources.Object) runtime.Object {
	existing, parts, ok := q.served.DecodeLean(live)
	if ok && q.served.Lean.Fill(existing, parts, 0) {
		return existing
	}
	fastpath.DefinitionSchemas.Fallback()
	return nil
}

// bothWhole makes both of two objects whole when one of them is: otherwise they cannot be compared.
func (q *request) bothWhole(existing, sent runtime.Object) error {
	if q.isLean(existing) == q.isLean(sent) {
		return nil
	}
	if err := q.served.Lean.Restore(existing); err != nil {
		return err
	}
	return q.served.Lean.Restore(sent)
}

// applyLifted makes a new object of a configuration whose parts stay text. They are values as a whole, and so nobody owns a part of
// one. Nil: it has to be applied whole.
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

// lifted is a configuration with placeholders for its parts.
type lifted struct {
	patch *unstructured.Unstructured
	// parts are those that the object has, of which there are live, and those that only the configuration has.
	parts []string
	live  int
	// existing is the object with placeholders that have the numbers of parts, as those of the configuration.
	existing runtime.Object
}

// lift reads the configuration for an object with such parts. Nil: it has to be read whole.
func (p *patcher) lift(live []string) *lifted {
	lean, parts, ok := p.q.served.Lean.Lift(p.body, live)
	l := &lifted{patch: &unstructured.Unstructured{Object: map[string]any{}}, parts: parts, live: len(live)}
	if !ok || !readsAlike(p.body) || !readStrictly(lean, &l.patch.Object) {
		return nil
	}
	return l
}

// existingLifted reads the live object for a configuration that is applied with parts that stay text, which they are in what it returns. Nil:
// the object has to be read whole.
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

// applyToLifted applies a configuration to an object that existingLifted has read. Nil: it has to be applied to the whole object, which
// this one is then.
func (p *patcher) applyToLifted(existing runtime.Object) (runtime.Object, error) {
	l, lean := p.lifted, p.q.served.Lean
	p.lifted = nil
	obj, err := p.manager.Apply(l.existing, l.patch, p.opts.FieldManager, p.forces())
	if err == nil && lean.Fill(obj, l.parts, l.live) {
		return obj, nil
	}
	return nil, lean.Restore(existing)
}

// patchesLean tells whether a patch may be one of an object whose parts stay text. A merge patch may put other parts, or none, in the place of
// those that are there: they are in a list, which it replaces. Other patches may look into them, but if they are of metadata alone.
func (p *patcher) patchesLean() bool {
	switch {
	case applies(p.typ) || !p.q.lifts():
		return false
	case p.typ == types.MergePatchType:
		return !hasNull(p.body)
	case p.typ == types.StrategicMergePatchType:
		return ofMetadata(p.body, types.MergePatchType) && !bytes.Contains(p.body, []byte("$"))
	}
	return ofMetadata(p.body, p.typ)
}

// hasNull tells whether a JSON text may have a null: a merge patch drops what it says of that, and also within what it adds.
func hasNull(text []byte) bool {
	for {
		_, after, found := bytes.Cut(text, []byte("null"))
		if !found || !bytes.HasPrefix(after, []byte("able")) {
			return found
		}
		text = after
	}
}

// patchedLean applies a patch to an object that existingLean has read. Nil: it has to be applied to the whole object, which existing is then.
func (p *patcher) patchedLean(ctx context.Context, existing runtime.Object, old []byte) (runtime.Object, error) {
	served := p.q.served.Lean
	if text, parts, ok := served.Lift(old, nil); ok {
		short, added := *p, 0 // all parts stay
		if p.typ == types.MergePatchType {
			added = len(parts)
			short.body, parts, ok = served.Lift(p.body, parts)
		}
		if ok {
			if obj, err := short.patchedText(ctx, text); err == nil && served.Fill(obj, parts, added) {
				return obj, nil
			}
		}
	}
	fastpath.DefinitionSchemas.Fallback()
	return nil, served.Restore(existing)
}
