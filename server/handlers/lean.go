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

// lifts tells whether parts of the object that is sent may go to the store as text (resources.Lean). What is recorded of a request
// shows it whole.
func (q *request) lifts() bool {
	return q.served.Lean != nil && q.sub == nil && fastpath.DefinitionSchemas.On() && !q.audit.RecordsObjects()
}

// decodeLifted reads the hub form of an object that is sent, of which parts stay text. Nil: it has to be read whole.
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
// those that are there: they are in a list, which it replaces. Other patches may look into them, unless they name what has none.
func (p *patcher) patchesLean() bool {
	if applies(p.typ) || !p.q.lifts() || !fastpath.BodyKind.On() { // by which the outcome is read, and new definitions are
		return false
	}
	if p.typ == types.MergePatchType || staysBelow(p.body, p.typ, p.q.served.Lean.Apart()) {
		return true
	}
	fastpath.DefinitionSchemas.Fallback()
	return false
}

// hasNull tells whether a part has a null in its JSON: within what a merge patch adds, upstream's library has a null mean something.
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

// patchedLean applies a patch to an object that existingLean has read. Nil: it has to be applied to the whole object, which existing is then.
func (p *patcher) patchedLean(ctx context.Context, existing runtime.Object, old []byte) (runtime.Object, error) {
	served := p.q.served.Lean
	if text, parts, ok := served.Lift(old, nil); ok {
		short, added := *p, 0 // all parts stay
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
