package admission

import (
	"slices"
	"testing"

	"github.com/rowlock/rowlock/resources/upstream"
)

// A plugin that kube-apiserver no longer has, or has under another name, is not left out in silence.
func TestPluginsAreListed(t *testing.T) {
	for name := range registrations(Config{}, nil) {
		if !slices.ContainsFunc(upstream.AdmissionPlugins(), func(p upstream.AdmissionPlugin) bool { return p.Name == name }) {
			t.Errorf("%s is none of kube-apiserver's plugins", name)
		}
	}
}
