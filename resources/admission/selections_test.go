package admission

import (
	"context"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	"k8s.io/apiserver/pkg/authentication/user"
	listersv1 "k8s.io/client-go/listers/core/v1"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// criteria are the conditions of a webhook or a policy, as upstream's matcher reads them.
type criteria struct {
	admissionregistrationv1.MatchResources
}

func (c *criteria) GetMatchResources() admissionregistrationv1.MatchResources {
	return c.MatchResources
}

func (c *criteria) GetParsedNamespaceSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.NamespaceSelector)
}

func (c *criteria) GetParsedObjectSelector() (labels.Selector, error) {
	return metav1.LabelSelectorAsSelector(c.ObjectSelector)
}

// oneNamespace lists the namespace of the test.
type oneNamespace struct {
	listersv1.NamespaceLister
	namespace *corev1.Namespace
}

func (o oneNamespace) Get(string) (*corev1.Namespace, error) { return o.namespace, nil }

// twoVersions returns two versions of one resource as equivalents.
type twoVersions struct{ admission.ObjectInterfaces }

func (twoVersions) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	r := runtime.NewEquivalentResourceRegistry()
	for _, v := range []string{"v1", "v2"} {
		r.RegisterKindFor(schema.GroupVersionResource{Version: v, Resource: "configmaps"}, "", schema.GroupVersionKind{Version: v, Kind: "ConfigMap"})
		r.RegisterKindFor(schema.GroupVersionResource{Version: v, Resource: "configmaps"}, "status", schema.GroupVersionKind{Version: v, Kind: "ConfigMap"})
	}
	return r
}

// FuzzSelections: if the fast path says that nothing applies to a write, upstream's matcher says so of each webhook or
// policy.
func FuzzSelections(f *testing.F) {
	f.Add("v1", "configmaps", "CREATE", "a=1", "", uint8(0))
	f.Add("v2", "configmaps/status", "*", "", "hook=1", uint8(1))
	f.Add("*", "*/*", "UPDATE", "a!=1", "hook notin (1)", uint8(6))
	f.Add("v1", "configmaps", "CREATE", "b=2", "hook=2", uint8(29))
	store, registry := sqlitetest.Open(f), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	t, _ := registry.Catalog().Type("namespaces")
	written := &api.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: map[string]string{"hook": "1"}}}
	draft, err := t.NewDraft(f.Context(), written)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := store.Commit(f.Context(), resources.Write{Op: resources.Create, Key: t.KeyOf("", "test"), Draft: draft}); err != nil {
		f.Fatal(err)
	}
	lister := oneNamespace{namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: written.Labels}}}
	upstream := matching.NewMatcher(lister, nil)
	f.Fuzz(func(t *testing.T, version, resource, operation, objects, namespaces string, bits uint8) {
		defer fastpath.Selections.Turn(true)()
		one := criteria{admissionregistrationv1.MatchResources{ObjectSelector: selectorOf(objects), NamespaceSelector: selectorOf(namespaces)}}
		if one.ObjectSelector == nil || one.NamespaceSelector == nil {
			return
		}
		rule := admissionregistrationv1.RuleWithOperations{Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationType(operation)},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{"", "*"}[bits&1 : bits&1+1], APIVersions: []string{version}, Resources: []string{resource}}}
		one.ResourceRules = []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}
		policy := []admissionregistrationv1.MatchPolicyType{admissionregistrationv1.Exact, admissionregistrationv1.Equivalent}[bits>>1&1]
		one.MatchPolicy = &policy
		a := writeOf(bits >> 2)
		s := &selections{store: store, registry: registry}
		s.all = append(s.all, newSelection([]admissionregistrationv1.RuleWithOperations{rule}, &policy, one.NamespaceSelector, one.ObjectSelector))
		matches, _, _, err := upstream.Matches(a, twoVersions{}, &one)
		if none := s.none(context.Background(), a, twoVersions{}); none && (matches || err != nil) {
			t.Errorf("upstream says that it is for the write (%v, %v), the path that it is not: %+v", matches, err, one)
		} else if !none && !matches && err == nil {
			t.Errorf("upstream says that it is not for the write, and is asked: %+v", one) // this may happen, but no case here needs it
		}
	})
}

// writeOf is a write of a ConfigMap, chosen by the bits.
func writeOf(bits uint8) admission.Attributes {
	var now, old runtime.Object
	operation := []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect}[bits&3]
	if operation == admission.Create || operation == admission.Update {
		now = &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "1"}}}
	}
	if operation == admission.Update || operation == admission.Delete {
		old = &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"b": "2"}}}
	}
	subresource := []string{"", "status"}[bits>>2&1]
	resource := schema.GroupVersionResource{Version: []string{"v1", "v2"}[bits>>3&1], Resource: "configmaps"}
	return admission.NewAttributesRecord(now, old, resource.GroupVersion().WithKind("ConfigMap"), "test", "a", resource, subresource, operation, nil, false, &user.DefaultInfo{})
}

// selectorOf reads a selector; nil: the text is not one.
func selectorOf(text string) *metav1.LabelSelector {
	s, err := metav1.ParseToLabelSelector(text)
	if err != nil || strings.TrimSpace(text) == "" {
		if err != nil {
			return nil
		}
		return &metav1.LabelSelector{}
	}
	return s
}
