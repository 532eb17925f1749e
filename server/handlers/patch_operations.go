package handlers

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	jsonpatchv4 "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/upstream"
)

// applyOperations applies a JSON Patch (RFC 6902) with version 4 of the library, which kube-apiserver uses: clients see its errors.
func applyOperations(patch, doc []byte) ([]byte, error) {
	operations, err := jsonpatchv4.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > upstream.PatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(
			fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d", upstream.PatchOperations, len(operations)))
	}
	patched, err := applyVersion4(operations, doc)
	if err != nil {
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
	}
	return patched, nil
}

// applyVersion4 applies operations with version 4 of the library. It panics on some invalid operations: a test or replacement of the whole document
// without a value, and a test of an array that contains null. In kube-apiserver the panic ends the connection; here such a patch is rejected like
// others that cannot be applied.
func applyVersion4(operations jsonpatchv4.Patch, doc []byte) (patched []byte, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the operations cannot be applied: %v", why)
		}
	}()
	return operations.Apply(doc)
}

// operateFast applies a JSON Patch that is free of errors, with version 5 of the library. ok is false for any other patch, which is then left to
// version 4.
func (p *patcher) operateFast(old []byte) (obj runtime.Object, ok bool) {
	patched, ok := applyCommon(p.body, old)
	if !ok {
		return nil, false
	}
	return p.q.decodeJSON(patched, p.validation, true)
}

// applyCommon applies a patch that both versions of the library treat alike; ok is false for any other, which both may reject.
func applyCommon(patch, doc []byte) (patched []byte, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // the library panics on null in arrays that are tested
		}
	}()
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil || len(operations) > upstream.PatchOperations || !isCommon(operations, patch, doc) {
		return nil, false
	}
	options := jsonpatch.NewApplyOptions()
	options.AccumulatedCopySizeLimit = upstream.PatchCopiedBytes
	if patched, err = operations.ApplyWithOptions(doc, options); err != nil {
		return nil, false
	}
	if bytes.ContainsAny(patched, htmlCharacters) {
		// Version 4 escapes these in everything that it writes: raw data is stored as written.
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, patched)
		patched = escaped.Bytes()
	}
	return patched, true
}

// htmlCharacters are the characters that encoding/json escapes although JSON does not require it.
const htmlCharacters = "<>&\u2028\u2029"

// isCommon tells whether version 5 either treats a patch as version 4 does, or rejects it. Version 5 differs in three ways:
//   - the empty path is the whole document, and the empty key the object itself;
//   - a test compares strings by their value, however they are escaped;
//   - it keeps the order of keys, and so writes null for a key that was there twice and is removed.
//
// A patch with unknown or duplicate keys is excluded, too, because it causes a warning or an error.
func isCommon(operations jsonpatch.Patch, patch, doc []byte) bool {
	tests, removes := false, false
	for _, o := range operations {
		pointers := []func() (string, error){o.Path}
		switch o.Kind() {
		case "test":
			tests = true
		case "remove":
			removes = true
		case "move":
			removes = true
			pointers = append(pointers, o.From)
		case "copy":
			pointers = append(pointers, o.From)
		}
		for _, pointer := range pointers {
			if p, err := pointer(); err != nil || p == "" || strings.HasSuffix(p, "/") || strings.Contains(p, "//") {
				return false
			}
		}
	}
	if tests && (bytes.ContainsAny(patch, `\`+htmlCharacters) || bytes.Contains(doc, []byte(`\u`)) || bytes.Contains(doc, []byte(`\/`))) {
		return false
	}
	return eachKeyOnce(patch, new([]jsonPatchOp)) && (!removes || eachKeyOnce(doc, new(map[string]any)))
}

// eachKeyOnce tells whether a document has neither duplicate nor unknown keys.
func eachKeyOnce(document []byte, into any) bool {
	strict, err := kjson.UnmarshalStrict(document, into)
	return err == nil && len(strict) == 0
}
