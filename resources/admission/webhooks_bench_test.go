package admission

import (
	"context"
	"fmt"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// noEquivalents has the object interfaces of a type that is served in one version.
type noEquivalents struct{ admission.ObjectInterfaces }

func (noEquivalents) GetEquivalentResourceMapper() runtime.EquivalentResourceMapper {
	return runtime.NewEquivalentResourceRegistry()
}

// BenchmarkUnmatchedWrite measures the cost of a hundred webhooks for a write that none applies to: because of their rules, or
// because of their selectors.
func BenchmarkUnmatchedWrite(b *testing.B) {
	b.Cleanup(fastpath.Selections.Turn(true))
	store, registry := sqlitetest.Open(b), resources.NewRegistry()
	registry.SetGroups(builtin.Groups())
	t, _ := registry.Catalog().Type("namespaces")
	ns := &api.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "test", Labels: map[string]string{"kubernetes.io/metadata.name": "test"}}}
	draft, err := t.NewDraft(b.Context(), ns)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := store.Commit(b.Context(), resources.Write{Op: resources.Create, Key: t.KeyOf("", "test"), Draft: draft}); err != nil {
		b.Fatal(err)
	}
	rule := func(resource string) []admissionregistrationv1.RuleWithOperations {
		return []admissionregistrationv1.RuleWithOperations{{Operations: []admissionregistrationv1.OperationType{"*"},
			Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{resource}}}}
	}
	obj := &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a"}}}
	a := admission.NewAttributesRecord(obj, nil, schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, "test", "a",
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, "", admission.Create, nil, false, &user.DefaultInfo{})
	for name, one := range map[string]func(i int) selection{
		"rules": func(i int) selection { return newSelection(rule(fmt.Sprint("things", i)), nil, nil, nil) },
		"selectors": func(i int) selection {
			return newSelection(rule("*"), nil, nil, &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint(i)}})
		},
		"namespaces": func(i int) selection {
			return newSelection(rule("*"), nil, &metav1.LabelSelector{MatchLabels: map[string]string{"hook": fmt.Sprint(i)}}, nil)
		},
	} {
		b.Run(name, func(b *testing.B) {
			s := &selections{store: store, registry: registry}
			for i := range 100 {
				s.all = append(s.all, one(i))
			}
			h := &hooks{derived: newDerived(store, func(context.Context) (*selections, error) { return s, nil }, mutatingConfigurations)}
			b.ReportAllocs()
			for b.Loop() {
				if none, err := h.none(b.Context(), a, noEquivalents{}); err != nil || !none {
					b.Fatal(none, err)
				}
			}
		})
	}
}
