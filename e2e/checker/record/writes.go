package record

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// The content types of bodies.
const (
	plainJSON      = "application/json"
	mergePatch     = "application/merge-patch+json"
	strategicPatch = "application/strategic-merge-patch+json"
	jsonPatch      = "application/json-patch+json"
	applyPatch     = "application/apply-patch+yaml"
)

// write does a write according to the operation, and records the answer.
func (r *recorder) write(ctx context.Context, o history.Operation, patchType string) error {
	o, err := r.do(ctx, o, patchType)
	if err == nil {
		r.addOperation(o)
	}
	return err
}

// do does a write according to the operation, and returns it with the answer.
func (r *recorder) do(ctx context.Context, o history.Operation, patchType string) (history.Operation, error) {
	method, path, contentType, body := r.writeRequest(&o, patchType)
	o.Call = r.now()
	answer, code, err := r.ask(ctx, r.targets[o.Server], method, path, contentType, body)
	o.Return, o.Code = r.now(), code
	if err != nil {
		return o, err
	}
	return o, r.takeAnswer(&o, answer)
}

// takeAnswer notes the answer to a write.
func (r *recorder) takeAnswer(o *history.Operation, answer *wire) error {
	switch {
	case answer == nil:
		return nil
	case o.Code >= 300:
		o.Reason = answer.Reason
		return nil
	case o.Kind != history.Delete:
		object, err := answer.object()
		o.Object = &object
		r.learn(object)
		return err
	}
	o.Object = &history.Object{Name: o.Name, UID: answer.Details.UID}
	if answer.Kind != "Status" { // the last state of the object
		o.Object.UID = answer.Metadata.UID
	}
	if o.Object.UID == "" {
		return fmt.Errorf("%w: the deletion of %s does not say which object it was", errBody, o.Name)
	}
	return nil
}

// writeRequest makes the request of a write.
func (r *recorder) writeRequest(o *history.Operation, patchType string) (method, path, contentType string, body any) {
	meta := map[string]any{"name": o.Name, "labels": map[string]any{label: o.Color}}
	conditions := map[string]any{}
	if o.IfRevision != 0 {
		conditions["resourceVersion"] = fmt.Sprint(o.IfRevision)
	}
	if o.IfUID != "" {
		conditions["uid"] = o.IfUID
	}
	if o.Kind == history.Delete {
		options := map[string]any{"kind": "DeleteOptions", "apiVersion": "v1"}
		if len(conditions) > 0 {
			options["preconditions"] = conditions
		}
		return http.MethodDelete, r.path(o.Name, nil), plainJSON, options
	}
	for key, value := range conditions {
		meta[key] = value
	}
	object := map[string]any{"metadata": meta, "data": r.crowd.data(o.Value)}
	if o.Kind != history.Patch || patchType == strategicPatch {
		object["apiVersion"], object["kind"] = "v1", "ConfigMap"
	}
	switch o.Kind {
	case history.Create:
		return http.MethodPost, r.path("", nil), plainJSON, object
	case history.Update:
		return http.MethodPut, r.path(o.Name, nil), plainJSON, object
	case history.Apply:
		return http.MethodPatch, r.path(o.Name, url.Values{"fieldManager": {"checker"}, "force": {"true"}}), applyPatch, object
	}
	if patchType == jsonPatch {
		operations := []map[string]any{
			{"op": "replace", "path": "/data/v", "value": o.Value},
			{"op": "replace", "path": "/metadata/labels/" + label, "value": o.Color},
		}
		for key, value := range conditions {
			operations = append(operations, map[string]any{"op": "replace", "path": "/metadata/" + key, "value": value})
		}
		return http.MethodPatch, r.path(o.Name, nil), jsonPatch, operations
	}
	return http.MethodPatch, r.path(o.Name, nil), patchType, object
}
