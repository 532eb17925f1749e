package custom

import (
	"unicode/utf8"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// clean tells whether coerce would leave an object of a version as it is: nobody has to look at its metadata, and its schema knows
// everything in it.
func (d *definition) clean(version string, object map[string]any) bool {
	if !fastpath.CustomDefaults.On() {
		return false
	}
	if d.plan(version).Clean(object) && plainMeta(object["metadata"]) {
		return true
	}
	fastpath.CustomDefaults.Fallback()
	return false
}

// plainMeta tells whether metadata comes out of upstream's ObjectMeta as it went in: it has nothing but texts that are not empty, and
// labels, annotations and finalizers made of texts.
func plainMeta(metadata any) bool {
	m, ok := metadata.(map[string]any)
	if !ok {
		return false
	}
	for name, v := range m {
		switch name {
		case "name", "generateName", "namespace", "uid", "resourceVersion":
			if s, ok := v.(string); !ok || s == "" || !utf8.ValidString(s) {
				return false
			}
		case "labels", "annotations":
			if texts, ok := v.(map[string]any); !ok || !plainTexts(texts) {
				return false
			}
		case "finalizers":
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				return false
			}
			for _, item := range list {
				if s, ok := item.(string); !ok || !utf8.ValidString(s) {
					return false
				}
			}
		default:
			return false
		}
	}
	return true
}

func plainTexts(texts map[string]any) bool {
	for name, v := range texts {
		if s, ok := v.(string); !ok || !utf8.ValidString(s) || !utf8.ValidString(name) {
			return false
		}
	}
	return len(texts) > 0
}
