package handlers

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// lifts tells whether parts of the new object that is sent may go to the store as text (resources.Lean). What is recorded of a request
// shows it whole.
func (q *request) lifts() bool {
	return q.served.Lean != nil && q.sub == nil && fastpath.DefinitionSchemas.On() && !q.audit.RecordsObjects()
}

// decodeLifted reads the hub form of a new object whose parts stay text. Nil: it has to be read whole.
func (q *request) decodeLifted(body []byte, fieldValidation string) runtime.Object {
	lean, parts, ok := q.served.Lean.Lift(body)
	if !ok {
		return nil
	}
	obj, ok := q.decodeJSON(lean, fieldValidation, false)
	if !ok || !q.served.Lean.Fill(obj, parts) {
		return nil
	}
	return obj
}

// applyLifted makes a new object of a configuration whose parts stay text. They are values as a whole, and so nobody owns a part of
// one. Nil: it has to be applied whole.
func (p *patcher) applyLifted(empty runtime.Object) runtime.Object {
	if p.typ != types.ApplyYAMLPatchType || !fastpath.ApplyJSON.On() || !p.q.lifts() {
		return nil
	}
	lean, parts, ok := p.q.served.Lean.Lift(p.body)
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	if ok && readsAlike(p.body) && readStrictly(lean, &patch.Object) {
		obj, err := p.manager.Apply(empty, patch, p.opts.FieldManager, p.forces())
		if err == nil && p.q.served.Lean.Fill(obj, parts) {
			return obj
		}
	}
	fastpath.DefinitionSchemas.Fallback()
	return nil
}
