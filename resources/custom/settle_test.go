package custom

import (
	"encoding/json"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

// The server's ownership of the status is computed without the schemas, with the same result as with them: for a definition that
// others own, and for one without owners.
func TestStatusIsOwnedAsWithSchemas(t *testing.T) {
	registry := resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	typ, ok := registry.Catalog().Type(Resource)
	if !ok {
		t.Fatal("there are no definitions")
	}
	manager, err := typ.ServerManager("status")
	if err != nil {
		t.Fatal(err)
	}
	owned := []metav1.ManagedFieldsEntry{{Manager: "a", Operation: metav1.ManagedFieldsOperationApply, APIVersion: "apiextensions.k8s.io/v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:group":{},"f:names":{"f:kind":{},"f:plural":{}},"f:scope":{},"f:versions":{}},"f:status":{"f:storedVersions":{}}}`)}}
	for _, entries := range [][]metav1.ManagedFieldsEntry{nil, owned} {
		for _, c := range changes() {
			live := validDefinition()
			c.do(live)
			live.ManagedFields = entries
			now := live.DeepCopy()
			now.Status.AcceptedNames = now.Spec.Names
			setCondition(now, apiextensions.NamesAccepted, apiextensions.ConditionTrue, "NoConflicts", "no conflicts found")
			light := withoutSchemas(now)
			lightLive := withoutSchemas(now)
			lightLive.Status = live.Status
			manager.Update(lightLive, light, resources.ServerManagerName)
			manager.Update(live, now, resources.ServerManagerName)
			for _, crd := range []*apiextensions.CustomResourceDefinition{light, now} {
				for i := range crd.ManagedFields {
					crd.ManagedFields[i].Time = nil
				}
			}
			got, _ := json.Marshal(light.ManagedFields)
			want, _ := json.Marshal(now.ManagedFields)
			if string(got) != string(want) || len(now.ManagedFields) != len(entries)+1 {
				t.Errorf("%s: %s\nwant %s", c.name, got, want)
			}
		}
	}
}
