package handlers

import (
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Some patches take a time that is quadratic in their size: minutes for what fits into one request, which kube-apiserver spends after it
// has told the client of a timeout. They are refused where honest ones do not come near.
const (
	// mostNesting is how many bytes may be read to merge a document of which every level is read by itself: each byte counts as often as
	// it is nested. One of 3 MiB may be nested 40 levels deep on average.
	mostNesting = 128 << 20
	// mostComparisons is how many elements may be compared to find those of a strategic merge patch in lists that are merged by keys. Two lists
	// of 5,000 are.
	mostComparisons = 25 << 20
)

// nesting is the sum of how deep each byte of a JSON text is nested.
func nesting(text []byte) (sum int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		sum += depth
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
			sum += depth
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
		case c == '}', c == ']':
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
	case types.StrategicMergePatchType:
		const least = 4 * 8 // bytes of an element of a directive, and of one with a key
		if len(patch)*(len(old)+len(patch)) <= least*mostComparisons {
			return nil
		}
		if deep(patch) || deep(old) {
			return tooCostly("nested too deeply")
		}
		sent := longest(gjson.ParseBytes(patch), false)
		if sent*(sent+longest(gjson.ParseBytes(old), false)) > mostComparisons {
			return tooCostly("merging lists that are too long")
		}
	}
	return nil
}

// deep tells whether to read each level of a text by itself takes too long.
func deep(text []byte) bool {
	return len(text)*len(text)/2 > mostNesting && nesting(text) > mostNesting
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

// longest is the length of the longest list that a strategic merge may go through element by element: of objects, or in a directive.
func longest(value gjson.Result, directive bool) (most int) {
	n, objects := 0, false
	value.ForEach(func(key, element gjson.Result) bool {
		n++
		objects = objects || element.IsObject()
		if element.IsObject() || element.IsArray() {
			most = max(most, longest(element, strings.HasPrefix(key.Str, "$")))
		}
		return true
	})
	if value.IsArray() && (objects || directive) {
		most = max(most, n)
	}
	return most
}
