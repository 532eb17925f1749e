package handlers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	cbor "k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/jsonscan"
	"github.com/rowlock/rowlock/server/codec"
	"github.com/rowlock/rowlock/server/status"
)

// applyServerSide merges an apply configuration into an object, or creates an object from it ("HTTP PATCH using Server-Side Apply", KEP-555).
func (p *patcher) applyServerSide(ctx context.Context, existing runtime.Object, exists bool) (runtime.Object, error) {
	live := existing
	if !exists {
		var err error
		if live, err = p.q.served.Scheme.New(p.q.kind); err != nil {
			return nil, err
		}
		if obj := p.applyLifted(live); obj != nil {
			return obj, nil
		}
	}
	if exists && p.lifted != nil {
		if obj, err := p.applyToLifted(existing); obj != nil || err != nil {
			return obj, err
		}
	}
	patch, clean, err := p.configuration(ctx)
	if err != nil {
		return nil, err
	}
	obj, err := p.manager.Apply(live, patch, p.opts.FieldManager, p.forces())
	if err != nil {
		if unconverted := new(resources.ConversionError); errors.As(err, &unconverted) {
			return nil, err
		}
		return nil, &status.OfRequest{Err: err}
	}
	if clean || p.validation == metav1.FieldValidationIgnore {
		return obj, nil
	}
	err = codec.InTurn(ctx, p.body, func() error { return yaml.UnmarshalStrict(p.body, &map[string]any{}) })
	if err != nil {
		if errors.Is(err, ctx.Err()) {
			return nil, err
		}
		if p.validation == metav1.FieldValidationStrict {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding patch: %v", err))
		}
		warnStrict(ctx, []error{err})
	}
	return obj, nil
}

// configuration decodes the apply configuration. clean is set when it has no duplicate keys. Clients send JSON, which is YAML too, but can be
// decoded as JSON in a tenth of the time.
func (p *patcher) configuration(ctx context.Context) (patch *unstructured.Unstructured, clean bool, err error) {
	patch = &unstructured.Unstructured{Object: map[string]any{}}
	if p.typ == types.ApplyCBORPatchType {
		if err := p.q.bounded(codec.CBOR, p.body); err != nil {
			return nil, false, err
		}
		if err := cbor.Unmarshal(p.body, &patch.Object); err != nil {
			return nil, false, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return patch, true, nil // CBOR with duplicate keys is invalid
	}
	if fastpath.ApplyJSON.On() {
		if readJSON(p.body, &patch.Object) {
			return patch, true, p.q.bounded(codec.JSON, p.body)
		}
		fastpath.ApplyJSON.Fallback()
		patch.Object = map[string]any{}
	}
	return patch, false, codec.InTurn(ctx, p.body, func() error {
		if err := p.q.bounded(codec.YAML, p.body); err != nil {
			return err
		}
		if err := yaml.Unmarshal(p.body, &patch.Object); err != nil {
			return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
		}
		return nil
	})
}

// readJSON decodes a configuration that is JSON without duplicate keys and has the same meaning as YAML, in which kube-apiserver reads it. It
// returns false for any other.
func readJSON(body []byte, into *map[string]any) bool {
	if !readsAlike(body) {
		return false
	}
	return readStrictly(body, into)
}

func readStrictly(body []byte, into *map[string]any) bool {
	strict, err := kjson.UnmarshalStrict(body, into)
	return err == nil && len(strict) == 0 && *into != nil
}

// numberLength is the length in bytes of the number at the beginning of a JSON text.
func numberLength(text []byte) int {
	if n := bytes.IndexFunc(text, func(r rune) bool { return !strings.ContainsRune("+-.0123456789Ee", r) }); n >= 0 {
		return n
	}
	return len(text)
}

// numberReadsAlike tells whether a number means the same in YAML and JSON: YAML decodes a whole number with a fraction or an exponent as an
// integer, JSON as a float.
func numberReadsAlike(number string) bool {
	if !strings.ContainsAny(number, ".eE") {
		return true
	}
	f, err := strconv.ParseFloat(number, 64)
	return err == nil && f != math.Trunc(f)
}

// readsAlike tells whether YAML reads a JSON text in the same way. YAML has no escaped slash, no surrogates and no control characters, but more
// line breaks. A key must have at most 1,024 characters and be on one line with its colon.
func readsAlike(body []byte) bool {
	opened := -1 // start of the current string
	for i := 0; i < len(body); {
		if opened >= 0 {
			if i += jsonscan.PrintableLength(body[i:]); i == len(body) {
				break
			}
		}
		switch c := body[i]; {
		case c == '\t':
			return false
		case c == '"':
			if opened >= 0 {
				after := bytes.TrimLeft(body[i+1:], " \r\n")
				if isKey := bytes.HasPrefix(after, []byte(":")); isKey && (i-opened > 1000 || len(after) < len(body)-i-1) {
					return false
				}
				opened = -1
			} else {
				opened = i
			}
			i++
		case c == '\\':
			rest := body[i+1:]
			if len(rest) == 0 || rest[0] == '/' || rest[0] == 'u' && (len(rest) == 1 || rest[1]|0x20 == 'd') {
				return false
			}
			i += 2
		case opened < 0 && (c == '-' || c >= '0' && c <= '9'):
			n := numberLength(body[i:])
			if !numberReadsAlike(string(body[i : i+n])) {
				return false
			}
			i += n
		case c < 0x7f:
			i++
		default:
			r, size := utf8.DecodeRune(body[i:])
			invalid := r == utf8.RuneError && size == 1
			if invalid || r < 0xa0 || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == '\ufffe' || r == '\uffff' {
				return false
			}
			i += size
		}
	}
	return true
}

func uidWithoutObject(uid types.UID) error {
	return fmt.Errorf("uid mismatch: the provided object specified uid %s, and no existing object was found", uid)
}
