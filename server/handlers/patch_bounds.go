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

// Some patches take time quadratic in their size: minutes for one that fits into a request. kube-apiserver goes on computing after it has answered
// the client with a timeout. These bounds reject such patches; legitimate ones do not come near them.
const (
	// mostNesting bounds the bytes read to merge a document each of whose levels is decoded separately: each byte counts once per level. A document
	// of 3 MiB may have an average depth of 40.
	mostNesting = 128 << 20
	// mostReading bounds the bytes of the old object that are read to merge a document into it, the whole of it for each level.
	mostReading = 1 << 30
	// mostComparisons bounds the comparisons that find the elements of a strategic merge patch in merged lists. Upstream needs some 20 s on one
	// core for that many; a patch may take 34 s. Two lists of 5,000 elements, in any order, take fewer.
	mostComparisons = 512 << 20
	// fewBytes is the size of a strategic merge patch and its object below which they cannot reach that bound.
	fewBytes = 8 << 10
)

// nesting is the sum of the depths of all bytes of a JSON text. An opening bracket counts as outside, a closing one as inside.
func nesting(text []byte) (sum int64) {
	depth := int64(0)
	for i := 0; i < len(text); i++ {
		sum += depth
		switch text[i] {
		case '"':
			end := jsonscan.EndOfString(text, i)
			if end == 0 { // invalid JSON: the rest counts as a string
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

// affordable rejects a patch that would take too long to apply. Both texts are valid JSON. Small ones, which are nearly all, are not examined,
// because they cannot reach the bounds.
func affordable(typ types.PatchType, patch, old []byte) error {
	switch typ {
	case types.MergePatchType:
		if deep(patch) {
			return tooCostly("nested too deeply")
		}
		if int64(len(patch))*int64(len(old)) > mostReading && nested(patch)*int64(len(old)) > mostReading {
			return tooCostly("nested too deeply for a large object")
		}
	case types.JSONPatchType:
		if deep(old) && deepestPointer(patch) > 64 {
			return tooCostly("too deep in a large object")
		}
	case types.StrategicMergePatchType: // affordableLists checks further
		if int64(len(patch))*int64(len(old)+len(patch)) > 6*mostNesting && (deep(patch) || deep(old)) {
			return tooCostly("nested too deeply")
		}
	}
	return nil
}

// affordableLists rejects a strategic merge patch that would need too many comparisons.
func affordableLists(original, patch map[string]any, schema runtime.Object) error {
	m, err := strategicpatch.NewPatchMetaFromStruct(schema)
	if err != nil {
		return nil // upstream reports it
	}
	c := comparisons{most: mostComparisons}
	if c.objects(original, patch, m); c.tooMany() {
		return tooCostly("merging lists that are too long")
	}
	return nil
}

// deep tells whether decoding each level of a text separately takes too long.
func deep(text []byte) bool {
	return int64(len(text))*int64(len(text))/2 > mostNesting && nesting(text) > mostNesting
}

func tooCostly(what string) error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("the patch is %s", what))
}

// nested is the greatest number of objects around a place of a merge patch, without those in lists, which replace the old ones. A merge reads the
// rest of the old object once for each.
func nested(patch []byte) (most int64) {
	depth, lists := int64(0), 0
	for i := 0; i < len(patch); i++ {
		switch c := patch[i]; {
		case c == '"':
			i = jsonscan.EndOfString(patch, i) - 1 // it is valid JSON
		case c == '[':
			lists++
		case c == ']':
			lists--
		case c == '{' && lists == 0:
			depth++
			most = max(most, depth)
		case c == '}' && lists == 0:
			depth--
		}
	}
	return most
}

// deepestPointer is the number of elements of the longest path in a JSON Patch.
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
