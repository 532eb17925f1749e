package resources

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/tidwall/gjson"
)

// CheckStored returns the error of an object of the type in a database: it does not decode, or does not match its key, or its selectable
// fields differ from the ones that were kept with it. kept is these, as JSON; empty: none. Objects without a Go type have none: selectors
// read them from the data (FieldsOf).
func (t *Type) CheckStored(o *Object, kept string) error {
	stored, err := t.DecodeStored(o)
	if err != nil {
		return fmt.Errorf("does not decode: %w", err)
	}
	if err := checkIdentity(o); err != nil {
		return err
	}
	if _, err := meta.Accessor(stored); err != nil {
		return err
	}
	if t.Untyped {
		return nil
	}
	hub, err := t.ToHub(stored)
	if err != nil {
		return fmt.Errorf("does not convert: %w", err)
	}
	_, found, err := t.Attrs(hub)
	if err != nil {
		return err
	}
	return sameFields(found, kept)
}

// CheckStoredRow is CheckStored for the server's own rows, and for rows of an unknown type.
func CheckStoredRow(o *Object) error {
	if IsOwnRow(o.Resource) {
		var row struct {
			internalRow
			Service json.RawMessage `json:"service"` // rows of node ports have it instead of a spec
		}
		if err := json.Unmarshal(o.Data, &row); err != nil || len(row.Spec) == 0 && len(row.Service) == 0 || row.Metadata.Name != o.Name {
			return errors.New("is not a row of the server's own")
		}
		return nil
	}
	return checkIdentity(o)
}

// checkIdentity compares the identity in an object with its key.
func checkIdentity(o *Object) error {
	m := gjson.Get(text(o.Data), "metadata")
	switch {
	case m.Get("name").String() != o.Name:
		return fmt.Errorf("has the name %q in its data", m.Get("name").String())
	case m.Get("namespace").String() != o.Namespace:
		return fmt.Errorf("has the namespace %q in its data", m.Get("namespace").String())
	case m.Get("uid").String() == "":
		return errors.New("has no uid")
	case m.Get("creationTimestamp").String() == "":
		return errors.New("has no creationTimestamp")
	}
	return nil
}

func sameFields(found fields.Set, kept string) error {
	was := map[string]string{}
	if kept != "" {
		if err := json.Unmarshal([]byte(kept), &was); err != nil {
			return fmt.Errorf("has selectable fields that are not JSON: %w", err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		now := found[name]
		value, kept := was[name]
		switch {
		case name == "metadata.name" || name == "metadata.namespace": // the key has these
		case !kept && now != "": // for a selector, a missing field equals an empty one
			return fmt.Errorf("lacks the selectable field %s, which is %q in its data", name, now)
		case value != now:
			return fmt.Errorf("has %q for the selectable field %s, which is %q in its data", value, name, now)
		}
	}
	return nil
}
