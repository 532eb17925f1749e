package handlers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"
)

// applyServerSide merges an apply configuration into an object, or makes one of it ("HTTP PATCH using Server-Side Apply",
// KEP-555).
func (p *patcher) applyServerSide(ctx context.Context, existing runtime.Object, exists bool) (runtime.Object, error) {
	patch := &unstructured.Unstructured{Object: map[string]any{}}
	if err := yaml.Unmarshal(p.body, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	live := existing
	if !exists {
		var err error
		if live, err = p.q.served.Scheme.New(p.q.kind); err != nil {
			return nil, err
		}
	}
	force := p.opts.Force != nil && *p.opts.Force
	obj, err := p.manager.Apply(live, patch, p.opts.FieldManager, force)
	if err != nil {
		return nil, err
	}
	if p.validation == metav1.FieldValidationIgnore {
		return obj, nil
	}
	if err := yaml.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
		if p.validation == metav1.FieldValidationStrict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		warnStrict(ctx, []error{err})
	}
	return obj, nil
}

func uidWithoutObject(uid types.UID) error {
	return fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
}
