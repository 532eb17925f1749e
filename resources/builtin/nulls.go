package builtin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// nullsAreEmpty stores a key's bytes that a client gave as null as empty bytes, as kube-apiserver does: a template without a value for a key
// of a Secret writes null, and clients in languages other than Go do not expect to read it. A null that an earlier release has stored is
// shown unchanged until the next write.
func nullsAreEmpty(t *resources.Type) {
	t.Normalize = func(versioned runtime.Object) {
		var data map[string][]byte
		switch obj := versioned.(type) {
		case *corev1.Secret:
			data = obj.Data
		case *corev1.ConfigMap:
			data = obj.BinaryData
		}
		for key, value := range data {
			if value == nil {
				data[key] = []byte{}
			}
		}
	}
}
