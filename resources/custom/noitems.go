package custom

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// forgetNoItems removes a value of items that is not a schema, true for one: kube-apiserver writes null for it, and finds nothing
// when it reads that back, which it does before it answers. It reports whether there was any.
func forgetNoItems(s *apiextensionsv1.JSONSchemaProps) (found bool) {
	if s == nil {
		return false
	}
	all := func(schemas []apiextensionsv1.JSONSchemaProps) {
		for i := range schemas {
			found = forgetNoItems(&schemas[i]) || found
		}
	}
	named := func(schemas map[string]apiextensionsv1.JSONSchemaProps) {
		for name, below := range schemas {
			if forgetNoItems(&below) {
				schemas[name], found = below, true
			}
		}
	}
	if s.Items != nil {
		found = forgetNoItems(s.Items.Schema)
		all(s.Items.JSONSchemas)
		if s.Items.Schema == nil && len(s.Items.JSONSchemas) == 0 {
			s.Items, found = nil, true
		}
	}
	all(s.AllOf)
	all(s.AnyOf)
	all(s.OneOf)
	found = forgetNoItems(s.Not) || found
	for _, or := range []*apiextensionsv1.JSONSchemaPropsOrBool{s.AdditionalProperties, s.AdditionalItems} {
		if or != nil {
			found = forgetNoItems(or.Schema) || found
		}
	}
	named(s.Properties)
	named(s.PatternProperties)
	return found
}
