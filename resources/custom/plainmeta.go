package custom

import (
	"time"
	"unicode/utf8"
)

// plainMeta reports whether upstream's ObjectMeta keeps metadata unchanged: it has only fields of ObjectMeta, with values of their
// types, no empty values that would be omitted, and times in their standard form.
func plainMeta(metadata any) bool {
	m, ok := metadata.(map[string]any)
	return ok && plainFields(m, plainObjectMeta)
}

// plainFields reports whether every field is in the list, with a suitable value.
func plainFields(object map[string]any, fits map[string]func(v any) bool) bool {
	for name, v := range object {
		if fit, listed := fits[name]; !listed || !fit(v) {
			return false
		}
	}
	return true
}

// The fields of ObjectMeta, and of its parts.
var (
	plainObjectMeta = map[string]func(v any) bool{
		"name": plainText, "generateName": plainText, "namespace": plainText, "uid": plainText, "resourceVersion": plainText, "selfLink": plainText,
		"labels": plainTexts, "annotations": plainTexts, "finalizers": plainList(isText), "generation": func(v any) bool { i, ok := v.(int64); return ok && i != 0 },
		"creationTimestamp": plainTime, "deletionTimestamp": plainTime, "deletionGracePeriodSeconds": func(v any) bool { _, ok := v.(int64); return ok },
		"ownerReferences": plainList(plainOwner), "managedFields": plainList(plainManager),
	}
	plainOwnerReference = map[string]func(v any) bool{"apiVersion": isText, "kind": isText, "name": isText, "uid": isText, "controller": isBool, "blockOwnerDeletion": isBool}
	plainManagedFields  = map[string]func(v any) bool{"manager": plainText, "operation": plainText, "apiVersion": plainText, "fieldsType": plainText, "subresource": plainText,
		"time": plainTime, "fieldsV1": plainSet}
)

func isBool(v any) bool { _, ok := v.(bool); return ok }

func isText(v any) bool {
	s, ok := v.(string)
	return ok && utf8.ValidString(s)
}

func plainText(v any) bool { return isText(v) && v != "" }

func plainTexts(v any) bool {
	texts, ok := v.(map[string]any)
	for name, v := range texts {
		if !isText(v) || !utf8.ValidString(name) {
			return false
		}
	}
	return ok && len(texts) > 0
}

// plainTime is a time in seconds and in UTC.
func plainTime(v any) bool {
	s, ok := v.(string)
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339, s)
	var room [len(time.RFC3339)]byte // every write calls this several times
	return err == nil && !t.IsZero() && string(t.UTC().AppendFormat(room[:0], time.RFC3339)) == s
}

func plainList(item func(v any) bool) func(v any) bool {
	return func(v any) bool {
		list, ok := v.([]any)
		for _, v := range list {
			if !item(v) {
				return false
			}
		}
		return ok && len(list) > 0
	}
}

// plainOwner has the four fields that are written even when they are empty.
func plainOwner(v any) bool {
	m, ok := v.(map[string]any)
	for _, name := range []string{"apiVersion", "kind", "name", "uid"} {
		if _, there := m[name]; !there {
			return false
		}
	}
	return ok && plainFields(m, plainOwnerReference)
}

func plainManager(v any) bool {
	m, ok := v.(map[string]any)
	return ok && plainFields(m, plainManagedFields)
}

// plainSet is a set of fields, which consists only of objects.
func plainSet(v any) bool {
	m, ok := v.(map[string]any)
	for name, v := range m {
		if !utf8.ValidString(name) || !plainSet(v) {
			return false
		}
	}
	return ok && m != nil
}
