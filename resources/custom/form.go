package custom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// formOf stands for all that the bytes of an object in a version depend on besides the stored ones (resources.Type.Form): how it
// is converted, pruned and defaulted. Descriptions, validation, columns and other versions are not in it.
func formOf(crd *apiextensionsv1.CustomResourceDefinition, shown *apiextensionsv1.CustomResourceDefinitionVersion) string {
	h := sha256.New()
	writeText(h, string(crd.UID))
	writeText(h, crd.Status.AcceptedNames.Kind)
	for _, v := range crd.Spec.Versions {
		if v.Storage || v.Name == shown.Name {
			writeText(h, v.Name)
			if v.Schema != nil {
				writeShape(h, v.Schema.OpenAPIV3Schema)
			}
		}
	}
	if c := crd.Spec.Conversion; c != nil && c.Webhook != nil && c.Webhook.ClientConfig != nil && !shown.Storage {
		who := *c.Webhook.ClientConfig
		who.CABundle = nil
		conversion, _ := json.Marshal(who) // has been read from JSON
		h.Write(conversion)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

func writeText(h hash.Hash, s string) {
	_ = binary.Write(h, binary.BigEndian, uint32(len(s)))
	h.Write([]byte(s))
}

func writeBool(h hash.Hash, b bool) { _ = binary.Write(h, binary.BigEndian, b) }

// writeShape writes what pruning and defaulting go by.
func writeShape(h hash.Hash, s *apiextensionsv1.JSONSchemaProps) {
	writeBool(h, s != nil)
	if s == nil {
		return
	}
	writeText(h, s.Type)
	writeBool(h, s.Nullable)
	writeBool(h, s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields)
	writeBool(h, s.XEmbeddedResource)
	writeBool(h, s.XIntOrString)
	writeBool(h, s.Default != nil)
	_ = binary.Write(h, binary.BigEndian, uint32(len(s.Properties)))
	if s.Default != nil {
		writeText(h, string(s.Default.Raw))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		writeText(h, name)
		writeShape(h, &property)
	}
	writeBool(h, s.Items != nil)
	if s.Items != nil {
		writeShape(h, s.Items.Schema)
	}
	writeBool(h, s.AdditionalProperties != nil)
	if s.AdditionalProperties != nil {
		writeBool(h, s.AdditionalProperties.Allows)
		writeShape(h, s.AdditionalProperties.Schema)
	}
}
