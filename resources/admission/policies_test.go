package admission

import (
	"context"
	"errors"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// policiesIn returns the policies of a new store, and a function that stores an object in the hub form.
func policiesIn(t *testing.T) (*policies[validatingPolicy, validatingBinding, int], func(resource string, obj runtime.Object)) {
	store, registry := sqlitetest.Open(t), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	f := newInformers(store, registry)
	f.Admissionregistration().V1().ValidatingAdmissionPolicies().Informer()
	f.Admissionregistration().V1().ValidatingAdmissionPolicyBindings().Informer()
	compiled := 0
	return newPolicies(f, policyKind[validatingPolicy, validatingBinding, int]{policies: validatingPolicyResource, bindings: validatingBindingResource,
			accessor: validating.NewValidatingAdmissionPolicyAccessor, policyOf: validating.NewValidatingAdmissionPolicyBindingAccessor,
			compile: func(validatingPolicy) int { compiled++; return compiled }}, validatingPolicy(nil), validatingBinding(nil)),
		func(resource string, obj runtime.Object) {
			t.Helper()
			typ, _ := registry.Catalog().Type(resource)
			draft, err := typ.NewDraft(t.Context(), obj)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Commit(t.Context(), resources.Write{Op: resources.Create, Key: typ.KeyOf(obj.(metav1.Object).GetNamespace(), obj.(metav1.Object).GetName()), Draft: draft}); err != nil {
				t.Fatal(err)
			}
		}
}

// A change of one of many policies reads and compiles that one only.
func TestPoliciesAreReadOnce(t *testing.T) {
	const many = 300
	of, put := policiesIn(t)
	one := func(name string) {
		put(validatingPolicyResource, &admissionregistration.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}})
		put(validatingBindingResource, &admissionregistration.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionregistration.ValidatingAdmissionPolicyBindingSpec{PolicyName: name}})
	}
	for i := range many {
		one(fmt.Sprint("p", i))
	}
	before, err := of.get(t.Context())
	if err != nil || len(before.hooks) != many {
		t.Fatal(len(before.hooks), err)
	}
	one("z")
	after, err := of.get(t.Context())
	if err != nil || len(after.hooks) != many+1 {
		t.Fatal(len(after.hooks), err)
	}
	for i, h := range before.hooks {
		if h.Policy != after.hooks[i].Policy || h.Bindings[0] != after.hooks[i].Bindings[0] || h.Evaluator != after.hooks[i].Evaluator {
			t.Fatalf("%s was read again", h.Policy.Name)
		}
	}
}

// A write of a policy or binding, to which no stored policy applies, waits for no computation of the policies. Other writes do, even those of
// webhooks' configurations.
func TestWritesOfPoliciesComputeNone(t *testing.T) {
	of, _ := policiesIn(t)
	failed, computed := errors.New("computed"), 0
	of.derived = newDerived(of.store, func(context.Context) (*policySet[validatingPolicy, validatingBinding, int], error) {
		computed++
		return nil, failed
	}, of.policies)
	p := policyPlugin[validatingPolicy, validatingBinding, int]{&generic.Plugin[hook[validatingPolicy, validatingBinding, int]]{}, of}
	for resource, want := range map[string]int{"validatingadmissionpolicies": 0, "validatingadmissionpolicybindings": 0, "mutatingadmissionpolicies": 0,
		"mutatingadmissionpolicybindings": 0, "validatingwebhookconfigurations": 1, "others": 1} {
		computed = 0
		a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "x", admissionregistrationv1.SchemeGroupVersion.WithResource(resource), "status",
			admission.Update, nil, false, nil)
		if err := p.dispatch(t.Context(), a, nil); computed != want || (err != nil) != (want > 0) {
			t.Errorf("%s: computed %d times, %v", resource, computed, err)
		}
	}
}
