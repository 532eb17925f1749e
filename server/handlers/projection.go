package handlers

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// projectedJSON is what a subresource shows, in the version of the request.
func (q *request) projectedJSON(sub runtime.Object) ([]byte, error) {
	versioned, err := q.served.Scheme.ConvertToVersion(sub, q.kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	versioned.GetObjectKind().SetGroupVersionKind(q.kind)
	return json.Marshal(versioned)
}
