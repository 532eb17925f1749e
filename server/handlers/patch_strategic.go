package handlers

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// strategic applies a Strategic Merge Patch to the versioned JSON of an object.
func (p *patcher) strategic(ctx context.Context, old []byte) (runtime.Object, error) {
	if fastpath.StrategicPatch.On() && fastpath.BodyKind.On() { // BodyKind decodes the result
		if obj, ok := p.strategicFast(old); ok {
			return obj, nil
		}
		fastpath.StrategicPatch.Fallback()
	}
	if err := p.q.bounded(codec.JSON, p.body); err != nil {
		return nil, err
	}
	var original, patch map[string]any
	if err := kjson.UnmarshalCaseSensitivePreserveInts(old, &original); err != nil {
		return nil, err
	}
	var strict []error
	var err error
	if p.validation == metav1.FieldValidationIgnore {
		err = kjson.UnmarshalCaseSensitivePreserveInts(p.body, &patch)
	} else {
		strict, err = kjson.UnmarshalStrict(p.body, &patch)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	versioned, err := p.q.served.Scheme.New(p.q.kind)
	if err != nil {
		return nil, err
	}
	merged, err := mergeStrategic(original, patch, versioned, len(old)+len(p.body))
	if err != nil {
		return nil, strategicError(err)
	}
	shown := fmt.Sprintf("%+v", patch) // the merge has removed its directives
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, versioned, p.validation != metav1.FieldValidationIgnore)
	if found, isStrict := runtime.AsStrictDecodingError(err); isStrict {
		strict, err = append(strict, found.Errors()...), nil
	}
	if err != nil {
		return nil, invalidPatch(shown, err)
	}
	if err := p.strictOutcome(ctx, strict, shown); err != nil {
		return nil, err
	}
	p.q.served.Scheme.Default(versioned)
	return p.q.served.Scheme.ConvertToVersion(versioned, p.q.served.HubOf(p.q.kind.Group))
}

// mergeStrategic is upstream's merge, within the bounds for patches of that size. Upstream panics on some malformed directives, such as objects in
// $retainKeys, and kube-apiserver then cuts the connection.
func mergeStrategic(original, patch map[string]any, schema runtime.Object, size int) (merged map[string]any, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = apierrors.NewBadRequest(fmt.Sprintf("invalid strategic merge patch: %v", why))
		}
	}()
	if size > fewBytes {
		if err := affordableLists(original, patch, schema); err != nil {
			return nil, err
		}
	}
	return strategicpatch.StrategicMergeMapPatch(original, patch, schema)
}

// strategicError assigns status codes to the errors of the merge.
func strategicError(err error) error {
	switch {
	case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return apierrors.NewBadRequest(err.Error())
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return &status.OfRequest{Err: err}
}
