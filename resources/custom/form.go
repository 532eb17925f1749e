package custom

import (
	"encoding/json"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/rowlock/rowlock/resources/jsonscan"
)

// The bytes that a version shows of an object stored in it are made by its own schema. Of one that is stored in another version they are
// made by the schema of that, which prunes it and fills in defaults; then it is converted, and pruned by the version that is shown. A
// definition has the form of the one before it (resources.Type.Form) in a version only where that comes to the same bytes of every object
// there may be: one in any of the versions that either of the two says objects are stored in, as a request that began under the one before
// may still make bytes of what is stored by the one after. Otherwise its form is one that no other definition ever had. Descriptions, validation, columns and versions that nothing is stored in do not matter, nor in which version new objects
// are stored.

// origin is whose objects a definition has, and in which versions those are stored that were written by now.
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

// showsAs tells whether a version shows every object by the bytes by which it does in the definition before. gap: there were others between
// the two, and who brings a webhook back has changed it, perhaps.
func (d *definition) showsAs(before *definition, version string, gap bool) bool {
	if d.origin.uid != before.origin.uid || d.kind != before.kind || d.sums.of(version).shape != before.sums.of(version).shape {
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
			continue // the one before prunes nothing of what is stored in a version that it does not have, and this one has done so
		}
		if converts || !there || !wasThere || !d.sameBelow(before, stored, version) { // a webhook is shown all
			return false
		}
	}
	return true
}

// sameBelow tells whether the schemas of a version that is stored, of the definition and of the one before, make the same of what the schema
// of the version that is shown leaves.
func (d *definition) sameBelow(before *definition, stored, shown string) bool {
	is, _ := d.schemaText(stored)
	was, _ := before.schemaText(stored)
	by, _ := d.schemaText(shown)
	a, aOK := jsonscan.NewIndex(string(was))
	b, bOK := jsonscan.NewIndex(string(is))
	x, xOK := jsonscan.NewIndex(string(by))
	if !aOK || !bOK || !xOK {
		return false // there is no schema that prunes
	}
	return sameNodes(subschema{a, a.Whole()}, subschema{b, b.Whole()}, sieve{subschema: subschema{x, x.Whole()}}, 0)
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
