package builtin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// nullsAreEmpty stores the bytes of a key that a client gave null as empty ones, as kube-apiserver does: a template that finds no value for a
// key of a Secret writes that, and clients in languages other than Go do not expect to read it. What an earlier release has stored as null is
// shown so until it is written.
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
