package custom

import (
	"errors"
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	kjson "sigs.k8s.io/json"

	"github.com/rowlock/rowlock/resources/custom/plan"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// versionSchema is the schema of one version.
type versionSchema struct {
	// props is the schema as it was written.
	props *apiextensions.JSONSchemaProps
	// structural is the same in the form for pruning, defaulting and validation. Its defaults are pruned.
	structural *structuralschema.Structural
}

// schemaKey is the cache key of the schema with a digest, and schemaCost the size of the entry as a multiple of the length of its text, about:
// the entry has the schema as it was written, and the structural one.
type schemaKey struct{ digest string }

const schemaCost = 5

// schema returns the schema of a version of the definition, served or not.
//
// Errors: the definition has no such version, or its schema is one that validation would refuse.
func (d *definition) schema(version string) (*versionSchema, error) {
	sum, there := d.sums.find(version)
	if !there {
		if _, found := d.schemaText(version); !found {
			return nil, fmt.Errorf("schema of %s in version %s: %w", d.name, version, errNoVersion)
		}
		return &versionSchema{}, nil
	}
	v, err := d.compiled.get(schemaKey{sum.digest}, int64(sum.size)*schemaCost, func() (any, error) {
		text, _ := d.schemaText(version)
		s, err := newVersionSchema(text)
		if err != nil {
			return nil, fmt.Errorf("schema of %s in version %s: %w", d.name, version, err)
		}
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*versionSchema), nil
}

// planKey is the cache key of the plan of the schema with a digest. The plan takes about as much as the text of the schema; it shares most of
// its parts with other plans.
type planKey struct{ digest string }

const planCost = 1

// plan returns the plan of the schema of a version. Nil: there is none.
func (d *definition) plan(version string) *plan.Node {
	sum, there := d.sums.find(version)
	if !there {
		return nil
	}
	v, err := d.compiled.get(planKey{sum.digest}, int64(sum.size)*planCost, func() (any, error) {
		if fastpath.CustomPlans.On() {
			if text, _ := d.schemaText(version); len(text) > 0 {
				if n, ok := plan.CompileStored(string(text)); ok {
					return n, nil
				}
			}
			fastpath.CustomPlans.Fallback()
		}
		s, err := d.schema(version)
		if err != nil {
			return nil, err
		}
		_, openAPI, err := validation.NewSchemaValidator(s.props)
		if err != nil {
			return nil, err
		}
		return plan.Compile(openAPI, s.structural), nil
	})
	if err != nil {
		return nil
	}
	return v.(*plan.Node)
}

var errNoVersion = errors.New("there is no such version")

// newVersionSchema reads a stored schema.
func newVersionSchema(text []byte) (*versionSchema, error) {
	props, s, err := readSchema(text)
	if err != nil {
		return nil, err
	}
	s = s.DeepCopy() // props has the same defaults
	if err := structuraldefaulting.PruneDefaults(s); err != nil {
		return nil, err
	}
	return &versionSchema{props: props, structural: s}, nil
}

// readSchema reads a stored schema. The two results share their defaults.
func readSchema(text []byte) (*apiextensions.JSONSchemaProps, *structuralschema.Structural, error) {
	var written apiextensionsv1.JSONSchemaProps
	if err := kjson.UnmarshalCaseSensitivePreserveInts(text, &written); err != nil {
		return nil, nil, err
	}
	props := &apiextensions.JSONSchemaProps{}
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&written, props, nil); err != nil {
		return nil, nil, err
	}
	s, err := structuralschema.NewStructural(props)
	return props, s, err
}
