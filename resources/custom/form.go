package custom

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// formOf stands for all that the bytes of an object in a version depend on besides the stored ones (resources.Type.Form): how it
// is pruned and defaulted; by whom it is converted, definition.follows adds. Descriptions, validation, columns and other versions are not in it.
func formOf(crd *apiextensionsv1.CustomResourceDefinition, shown *apiextensionsv1.CustomResourceDefinitionVersion, schemas byVersion[schemaSum]) string {
	h := sha256.New()
	writeText(h, string(crd.UID))
	writeText(h, crd.Status.AcceptedNames.Kind)
	for _, v := range crd.Spec.Versions {
		if v.Storage || v.Name == shown.Name {
			writeText(h, v.Name)
			writeText(h, schemas.of(v.Name).shape)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// converterOf stands for who converts the objects of a definition. It may show itself with other certificates.
func converterOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return ""
	}
	who := *c.Webhook.ClientConfig
	who.CABundle = nil
	data, _ := json.Marshal(who) // has been read from JSON
	return string(data)
}

func writeText(h hash.Hash, s string) {
	_ = binary.Write(h, binary.BigEndian, uint32(len(s)))
	h.Write([]byte(s))
}
