package custom

import (
	"github.com/rowlock/rowlock/resources/fastpath"
)

// clean tells whether coerce would leave an object of a version as it is: nobody has to look at its metadata, and its schema knows
// everything in it.
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
