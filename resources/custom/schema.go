package custom

import (
	"errors"
	"fmt"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	structuraldefaulting "k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
)

// schemas are those of the versions of one definition, each made when it is first needed.
type schemas struct {
	mu        sync.Mutex
	byVersion map[string]*versionSchema
}

// versionSchema is the schema of one version.
type versionSchema struct {
	// props is the schema as it was written.
	props *apiextensions.JSONSchemaProps
	// structural is the same in the form that pruning, defaulting and validation work with. Its defaults are pruned.
	structural *structuralschema.Structural
}

// schema returns the schema of a version of the definition, served or not.
//
// Errors: the definition has no such version, or its schema is none that validation would have let pass.
func (d *definition) schema(version string) (*versionSchema, error) {
	d.schemas.mu.Lock()
	defer d.schemas.mu.Unlock()
	if s := d.schemas.byVersion[version]; s != nil {
		return s, nil
	}
	crd, err := d.decode()
	if err != nil {
		return nil, err
	}
	s, err := newVersionSchema(crd, version)
	if err != nil {
		return nil, fmt.Errorf("schema of %s in version %s: %w", d.name, version, err)
	}
	if d.schemas.byVersion == nil {
		d.schemas.byVersion = map[string]*versionSchema{}
	}
	d.schemas.byVersion[version] = s
	return s, nil
}

var errNoVersion = errors.New("there is no such version")

func newVersionSchema(crd *apiextensionsv1.CustomResourceDefinition, version string) (*versionSchema, error) {
	v := versionOf(crd, version)
	if v == nil {
		return nil, errNoVersion
	}
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return &versionSchema{}, nil
	}
	var internal apiextensions.CustomResourceValidation
	if err := apiextensionsv1.Convert_v1_CustomResourceValidation_To_apiextensions_CustomResourceValidation(v.Schema, &internal, nil); err != nil {
		return nil, err
	}
	s, err := structuralschema.NewStructural(internal.OpenAPIV3Schema)
	if err != nil {
		return nil, err
	}
	s = s.DeepCopy() // its defaults belong to props
	if err := structuraldefaulting.PruneDefaults(s); err != nil {
		return nil, err
	}
	return &versionSchema{props: internal.OpenAPIV3Schema, structural: s}, nil
}

// versionOf finds a version of a definition; nil: there is none of the name.
func versionOf(crd *apiextensionsv1.CustomResourceDefinition, name string) *apiextensionsv1.CustomResourceDefinitionVersion {
	for i := range crd.Spec.Versions {
		if crd.Spec.Versions[i].Name == name {
			return &crd.Spec.Versions[i]
		}
	}
	return nil
}
