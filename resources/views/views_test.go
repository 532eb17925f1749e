package views

import "testing"

// definition is that of a custom resource with a column.
func definition(plural, jsonPath string) []byte {
	return []byte(`{"metadata":{"name":"` + plural + `.example.com"},"status":{"conditions":[{"type":"Established","status":"True"}]},
		"spec":{"group":"example.com","names":{"plural":"` + plural + `"},"versions":[{"name":"v1","storage":true,"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":"` + jsonPath + `"}]}]}}`)
}

// A column is there when its JSONPath leads to one value, and can be said to databases: no statement has U+0000.
func TestColumnsOfDefinition(t *testing.T) {
	for path, want := range map[string]bool{
		`.spec.a`: true, `.status.conditions[?(@.type=='Ready')].status`: true, `.spec['a.b'][0]`: true,
		`.status.conditions[?(@.type=='Re\u0000ady')].status`: false, `.spec.a\u0000`: false, `.spec['a\u0000']`: false, `.spec.a[*]`: false, `.a\"b`: false,
	} {
		v, ok := OfDefinition(definition("things", path))
		if !ok || len(v.Columns) == 1 != want {
			t.Errorf("%s: %+v, %t", path, v, ok)
		}
	}
}
