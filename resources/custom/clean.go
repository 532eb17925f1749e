package custom

import (
	"github.com/rowlock/rowlock/resources/fastpath"
)

// clean reports whether coerce would leave an object of a version unchanged: its metadata needs no pruning, and its schema has all
// its fields.
func (d *definition) clean(version string, object map[string]any) bool {
	if !fastpath.CustomDefaults.On() {
		return false
	}
	if d.isClean(version, object) {
		return true
	}
	fastpath.CustomDefaults.Fallback()
	return false
}

func (d *definition) isClean(version string, object map[string]any) bool {
	return fastpath.CustomDefaults.On() && d.plan(version).Clean(object, plainMeta) && plainMeta(object["metadata"])
}
