package resources

import (
	"encoding/json"
	"fmt"
)

// internalRow is an object of the server's own, under a resource that no API serves. It looks like others, so that
// people who look at the tables find their way.
type internalRow struct {
	Kind       string          `json:"kind"`
	APIVersion string          `json:"apiVersion"`
	Metadata   internalMeta    `json:"metadata"`
	Spec       json.RawMessage `json:"spec"`
}

type internalMeta struct {
	Name            string `json:"name"`
	ResourceVersion string `json:"resourceVersion"`
}

// InternalDraft makes the row of the server's own that has a spec, for a resource whose name ends in rowlock.internal.
func InternalDraft(kind, name string, spec any) (Draft, error) {
	encoded, err := json.Marshal(spec)
	if err != nil {
		return Draft{}, err
	}
	data, err := json.Marshal(internalRow{kind, "rowlock.internal/v1", internalMeta{name, PlaceholderRevision}, encoded})
	if err != nil {
		return Draft{}, err
	}
	d, _ := DraftOf(data)
	return d, nil
}

// DecodeInternal reads the spec of a row that InternalDraft has made.
func DecodeInternal(o *Object, spec any) error {
	var row internalRow
	err := json.Unmarshal(o.Data, &row)
	if err == nil {
		err = json.Unmarshal(row.Spec, spec)
	}
	if err != nil {
		return fmt.Errorf("decode %s: %w", o.Key, err)
	}
	return nil
}
