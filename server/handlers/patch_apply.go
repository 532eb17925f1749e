package handlers

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// applyServerSide merges an apply configuration into an object, or makes one of it ("HTTP PATCH using Server-Side Apply",
// KEP-555).
func (p *patcher) applyServerSide(ctx context.Context, existing runtime.Object, exists bool) (runtime.Object, error) {
	patch, clean, err := p.configuration()
	if err != nil {
		return nil, err
	}
	live := existing
	if !exists {
		if live, err = p.q.served.Scheme.New(p.q.kind); err != nil {
			return nil, err
		}
	}
	force := p.opts.Force != nil && *p.opts.Force
	obj, err := p.manager.Apply(live, patch, p.opts.FieldManager, force)
	if err != nil {
		return nil, err
	}
	if clean || p.validation == metav1.FieldValidationIgnore {
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

// configuration reads what is to be applied. clean is set when no key is in it twice. Clients send JSON, which is YAML
// too, but takes a tenth of the time to read as what it is.
func (p *patcher) configuration() (patch *unstructured.Unstructured, clean bool, err error) {
	patch = &unstructured.Unstructured{Object: map[string]any{}}
	if p.typ == types.ApplyCBORPatchType {
		if err := cbor.Unmarshal(p.body, &patch.Object); err != nil {
			return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return patch, true, nil // a key that is there twice makes it no CBOR
	}
	if strict, err := kjson.UnmarshalStrict(p.body, &patch.Object); err == nil && len(strict) == 0 && patch.Object != nil {
		return patch, true, nil
	}
	patch.Object = map[string]any{}
	if err := yaml.Unmarshal(p.body, &patch.Object); err != nil {
		return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
	}
	return patch, false, nil
}

func uidWithoutObject(uid types.UID) error {
	return fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
}
