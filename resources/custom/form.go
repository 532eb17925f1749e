package custom

import (
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// The bytes that a version shows of an object stored in it depend on its own schema. An object stored in another version is pruned and defaulted by
// the schema of that version; then it is converted, and pruned by the schema of the version that is shown. In a version, a definition has the form of
// its predecessor (resources.Type.Form) only if both make the same bytes of every possible object: one in any storage version of either of the two,
// past or present, since a request that began under the predecessor may still encode an object that was stored by the successor. Otherwise its form
// is one that no other definition had.
// Descriptions, validation, columns and versions without stored objects do not matter, nor does the version in which new objects are stored.

// origin identifies a definition's objects (uid), and has the versions in which some of them may be stored.
type origin struct {
	uid    types.UID
	stored []string
}

func originOf(crd *apiextensionsv1.CustomResourceDefinition) origin {
	stored := slices.Clone(crd.Status.StoredVersions)
	for _, v := range crd.Spec.Versions {
		if v.Storage && !slices.Contains(stored, v.Name) {
			stored = append(stored, v.Name)
		}
	}
	return origin{crd.UID, stored}
}

// with are the versions in which objects of either of two definitions are stored.
func (o origin) with(before origin) []string {
	all := slices.Clone(o.stored)
	for _, v := range before.stored {
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
	}
	return all
}

// showsAs reports whether a version shows every object by the same bytes as in the definition before. gap: there were other definitions between the
// two, and a webhook that was removed and restored may have changed.
func (d *definition) showsAs(before *definition, version string, gap bool) bool {
	if d.origin.uid != before.origin.uid || d.kind != before.kind || d.unpruned != before.unpruned || d.sums.of(version).shape != before.sums.of(version).shape {
		return false
	}
	converts := d.conversions != nil
	for _, stored := range d.origin.with(before.origin) {
		if stored == version {
			continue
		}
		if converts != (before.conversions != nil) || d.who != before.who || converts && gap {
			return false
		}
		is, there := d.sums.find(stored)
		was, wasThere := before.sums.find(stored)
		if is.shape == was.shape && there == wasThere {
			continue
		}
		if !converts && !wasThere && !slices.Contains(before.origin.stored, stored) {
			continue // the predecessor does not prune objects stored in a version that it lacks, and this definition has pruned them
		}
		if converts || !there || !wasThere || !d.sameBelow(before, stored, version) { // a webhook sees all fields
			return false
		}
	}
	return true
}

// sameBelow reports whether the schemas of a stored version, in this definition and in its predecessor, treat alike all fields that the schema of the
// shown version keeps.
func (d *definition) sameBelow(before *definition, stored, shown string) bool {
	is, _ := d.schemaText(stored)
	was, _ := before.schemaText(stored)
	by, _ := d.schemaText(shown)
	a, aOK := jsonscan.NewIndex(string(was))
	b, bOK := jsonscan.NewIndex(string(is))
	x, xOK := jsonscan.NewIndex(string(by))
	if !aOK || !bOK || !xOK {
		return false // no schema that prunes
	}
	return sameNodes(subschema{a, a.Whole()}, subschema{b, b.Whole()}, sieve{subschema: subschema{x, x.Whole()}}, 0)
}

// converterOf identifies the conversion webhook of a definition. The webhook's certificates may change.
func converterOf(crd *apiextensionsv1.CustomResourceDefinition) string {
	c := crd.Spec.Conversion
	if c == nil || c.Webhook == nil || c.Webhook.ClientConfig == nil {
		return ""
	}
	who := *c.Webhook.ClientConfig
	who.CABundle = nil
	data, _ := json.Marshal(who) // it was read from JSON
	return string(data)
}
