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

// applyOperations applies a JSON Patch (RFC 6902) by version 4 of the library, which kube-apiserver has: clients see its words.
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

// applyVersion4 applies operations by version 4 of the library. It panics over some that it should refuse: a test or a replacement of the whole
// document without a value, and a test of an array that has null in it. The panic ends kube-apiserver's connection; here such a patch is
// refused like others that do not apply.
func applyVersion4(operations jsonpatchv4.Patch, doc []byte) (patched []byte, err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("the operations cannot be applied: %v", why)
		}
	}()
	return operations.Apply(doc)
}

// operateFast applies a JSON Patch to which there is nothing to object, by version 5 of the library. ok is false for any
// other, which then takes the way of version 4.
func (p *patcher) operateFast(old []byte) (obj runtime.Object, ok bool) {
	patched, ok := applyCommon(p.body, old)
	if !ok {
		return nil, false
	}
	return p.q.decodeJSON(patched, p.validation, true)
}

// applyCommon applies a patch that both versions of the library take in the same way; ok is false for any other, which may be
// one that neither takes.
func applyCommon(patch, doc []byte) (patched []byte, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false // the library is not safe from null among the elements of arrays that are tested
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
		// Version 4 escapes these in all that it writes: raw data is stored as it was written.
		var escaped bytes.Buffer
		json.HTMLEscape(&escaped, patched)
		patched = escaped.Bytes()
	}
	return patched, true
}

// htmlCharacters are what encoding/json escapes besides what JSON has to escape.
const htmlCharacters = "<>&\u2028\u2029"

// isCommon tells whether version 5 does with a patch what version 4 would do, or refuses it. Version 5 takes more in three
// ways:
//   - the empty path is the whole document, and the empty key the object itself;
//   - two strings are equal in a test when they mean the same, however they are written;
//   - it keeps the order of keys, and so stumbles over those that are there twice when one is removed.
//
// A patch with unknown or duplicate keys is not among them either: there is something to say of it.
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

// eachKeyOnce tells whether no object of a document has a key twice, or one that is unknown.
func eachKeyOnce(document []byte, into any) bool {
	strict, err := kjson.UnmarshalStrict(document, into)
	return err == nil && len(strict) == 0
}
