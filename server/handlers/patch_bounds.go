package handlers

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// Some patches take a time that is quadratic in their size: minutes for what fits into one request, which kube-apiserver spends after it
// has told the client of a timeout. They are refused where honest ones do not come near.
const (
	// mostNesting is how many bytes may be read to merge a document of which every level is read by itself: each byte counts as often as
	// it is nested. One of 3 MiB may be nested 40 levels deep on average.
	mostNesting = 128 << 20
	// mostComparisons is how many elements may be compared to find those of a strategic merge patch in lists that are merged: upstream
	// needs some 20 s on one core for as many, of the 34 s that a patch may take. Two lists of 5,000 elements, in whatever order, take fewer.
	mostComparisons = 512 << 20
	// fewBytes is how large a strategic merge patch and its object are together that cannot come near that.
	fewBytes = 8 << 10
)

// nesting is the sum of how deep each byte of a JSON text is nested. A bracket counts as what is within it but for the opening one.
func nesting(text []byte) (sum int64) {
	depth := int64(0)
	for i := 0; i < len(text); i++ {
		sum += depth
		switch text[i] {
		case '"':
			end := jsonscan.EndOfString(text, i)
			if end == 0 { // it is not JSON: the rest counts as a string
				end = len(text)
			}
			sum += depth * int64(end-i-1)
			i = end - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
		}
	}
	return sum
}

// affordable refuses a patch that would take too long to apply. Both texts are valid JSON. Small ones, which are nearly all, are not looked
// at: the sums cannot be reached by them.
func affordable(typ types.PatchType, patch, old []byte) error {
	switch typ {
	case types.MergePatchType:
		if deep(patch) {
			return tooCostly("nested too deeply")
		}
	case types.JSONPatchType:
		if deep(old) && deepestPointer(patch) > 64 {
			return tooCostly("too deep in a large object")
		}
	case types.StrategicMergePatchType: // affordableLists looks further
		if int64(len(patch))*int64(len(old)+len(patch)) > 6*mostNesting && (deep(patch) || deep(old)) {
			return tooCostly("nested too deeply")
		}
	}
	return nil
}

// affordableLists refuses a strategic merge patch with which too many elements would be compared.
func affordableLists(original, patch map[string]any, schema runtime.Object) error {
	m, err := strategicpatch.NewPatchMetaFromStruct(schema)
	if err != nil {
		return nil // upstream says so
	}
	c := comparisons{most: mostComparisons}
	if c.objects(original, patch, m); c.tooMany() {
		return tooCostly("merging lists that are too long")
	}
	return nil
}

// deep tells whether to read each level of a text by itself takes too long.
func deep(text []byte) bool {
	return int64(len(text))*int64(len(text))/2 > mostNesting && nesting(text) > mostNesting
}

func tooCostly(what string) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the patch is %s", what))
}

// deepestPointer is how many parts the longest path of a JSON Patch has.
func deepestPointer(patch []byte) (most int) {
	gjson.ParseBytes(patch).ForEach(func(_, operation gjson.Result) bool {
		operation.ForEach(func(key, value gjson.Result) bool {
			if key.Str == "path" || key.Str == "from" {
				most = max(most, strings.Count(value.Str, "/"))
			}
			return true
		})
		return true
	})
	return most
}
