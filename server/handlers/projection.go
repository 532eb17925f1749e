package handlers

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/runtime"
)

// projectedJSON is the JSON of a subresource, in the request's version.
func (q *request) projectedJSON(sub runtime.Object) ([]byte, error) {
	versioned, err := q.served.Scheme.ConvertToVersion(sub, q.kind.GroupVersion())
	if err != nil {
		return nil, err
	}
	versioned.GetObjectKind().SetGroupVersionKind(q.kind)
	return json.Marshal(versioned)
}
