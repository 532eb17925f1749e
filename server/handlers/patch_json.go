package handlers

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

// jsonOrMerge applies a JSON Patch (RFC 6902) or a JSON Merge Patch (RFC 7386) to the versioned JSON of an object.
func (p *patcher) jsonOrMerge(ctx context.Context, old []byte) (runtime.Object, error) {
	path, fast := fastpath.MergePatch, p.mergeFast
	if p.typ == types.JSONPatchType {
		path, fast = fastpath.JSONPatch, p.operateFast
	}
	if path.On() && fastpath.BodyKind.On() { // BodyKind decodes the result
		if p.isOrderless() {
			if obj, ok := fast(old); ok {
				return obj, nil
			}
		}
		path.Fallback()
	}
	var (
		patched []byte
		strict  []error
		err     error
	)
	if p.typ == types.JSONPatchType {
		patched, strict, err = p.jsonPatch(old)
	} else {
		patched, strict, err = p.mergePatch(old)
	}
	if err != nil {
		return nil, err
	}
	return p.decodePatched(ctx, patched, strict)
}

// jsonPatchOp is the type for strict decoding of a JSON Patch.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

func (p *patcher) jsonPatch(old []byte) (patched []byte, strict []error, err error) {
	if p.validation != metav1.FieldValidationIgnore {
		var operations []jsonPatchOp
		if strict, err = kjson.UnmarshalStrict(p.body, &operations); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		for i, e := range strict {
			strict[i] = fmt.Errorf("json patch %w", e)
		}
	}
	if patched, err = applyOperations(p.body, old); err != nil {
		return nil, nil, err
	}
	return patched, strict, nil
}

// mergeFast applies a merge patch that is free of errors. ok is false for any other patch, which then takes the slow path, whose errors are
// kube-apiserver's.
func (p *patcher) mergeFast(old []byte) (obj runtime.Object, ok bool) {
	if !utf8.Valid(p.body) {
		return nil, false
	}
	strict, err := kjson.UnmarshalStrict(p.body, &map[string]any{})
	if err != nil || len(strict) > 0 || !isJSONObject(p.body) {
		return nil, false
	}
	return p.q.decodeJSON(mergeJSON(old, parsed(p.body)), p.validation, true)
}

// isOrderless tells whether the order of keys and the escapes in a patch's result do not matter. They matter for types with a part that is stored
// as sent (runtime.RawExtension): upstream's libraries encode such a part again when they patch it.
func (p *patcher) isOrderless() bool {
	if p.q.served.Untyped {
		return true
	}
	versioned, err := p.q.served.Scheme.New(p.q.kind)
	return err == nil && plainTypes.Of(reflect.TypeOf(versioned).Elem(), isPlainType)
}

func (p *patcher) mergePatch(old []byte) (patched []byte, strict []error, err error) {
	if p.validation != metav1.FieldValidationIgnore {
		if strict, err = kjson.UnmarshalStrict(p.body, &map[string]any{}); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
	}
	patched, err = jsonpatch.MergePatch(old, p.body)
	if errors.Is(err, jsonpatch.ErrBadJSONPatch) {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	return patched, strict, err
}

// decodePatched decodes the result of a patch; strict are the errors from strict decoding of the patch itself.
func (p *patcher) decodePatched(ctx context.Context, patched []byte, strict []error) (runtime.Object, error) {
	q := p.q
	if len(strict) == 0 && fastpath.BodyKind.On() {
		if obj, ok := q.decodeJSON(patched, p.validation, true); ok {
			return obj, nil
		}
		fastpath.BodyKind.Fallback()
	}
	if err := q.bounded(codec.JSON, patched); err != nil {
		return nil, err
	}
	into, err := q.newHub()
	if err != nil {
		return nil, err
	}
	info, ok := runtime.SerializerInfoForMediaType(q.served.Serializer.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return nil, errors.New("no serializer for JSON")
	}
	decoder := info.Serializer
	if p.validation != metav1.FieldValidationIgnore {
		decoder = info.StrictSerializer
	}
	err = runtime.DecodeInto(q.served.Serializer.DecoderToVersion(decoder, q.served.HubOf(q.kind.Group)), patched, into)
	if found, isStrict := runtime.AsStrictDecodingError(err); isStrict {
		strict, err = append(strict, found.Errors()...), nil
	}
	if err != nil {
		return nil, invalidPatch(string(patched), err)
	}
	return into, p.strictOutcome(ctx, strict, string(patched))
}

// strictOutcome turns unknown and duplicate fields into warnings or an error, as requested.
func (p *patcher) strictOutcome(ctx context.Context, strict []error, shown string) error {
	switch {
	case len(strict) == 0:
		return nil
	case p.validation == metav1.FieldValidationWarn:
		warnStrict(ctx, strict)
		return nil
	}
	return invalidPatch(shown, runtime.NewStrictDecodingError(strict))
}

func invalidPatch(shown string, cause error) error {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{field.Invalid(field.NewPath("patch"), shown, cause.Error())})
}
