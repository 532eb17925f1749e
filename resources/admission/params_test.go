package admission

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// given is a dispatcher that keeps what it is given.
type given struct {
	hooks []hook[validatingPolicy, validatingBinding, int]
}

func (*given) Start(context.Context) error { return nil }

func (g *given) Dispatch(_ context.Context, _ admission.Attributes, _ admission.ObjectInterfaces, hooks []hook[validatingPolicy, validatingBinding, int]) error {
	g.hooks = hooks
	return nil
}

// paramsFor returns the params of a policy whose parameters are ConfigMaps, as the dispatcher is given them in a context.
func paramsFor(ctx context.Context, t *testing.T, of *policies[validatingPolicy, validatingBinding, int]) params {
	t.Helper()
	d := &given{}
	policy := &admissionregistrationv1.ValidatingAdmissionPolicy{Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "v1", Kind: "ConfigMap"}}}
	err := withParams[validatingPolicy, validatingBinding, int]{d, of}.Dispatch(ctx, nil, nil, []hook[validatingPolicy, validatingBinding, int]{{Policy: policy}})
	if err != nil || d.hooks[0].ConfigurationError != nil {
		t.Fatal(err, d.hooks[0].ConfigurationError)
	}
	return d.hooks[0].ParamInformer.(params).ByNamespace("a").(params)
}

// The parameters of a request are of the types that it began with, also when they are served no longer.
func TestParamsAreOfTheRequestsTypes(t *testing.T) {
	of, put := policiesIn(t)
	put("configmaps", &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}})
	registry := of.informers.registry
	ctx := resources.WithCatalog(t.Context(), registry.Catalog())
	registry.RemoveGroup("")
	if _, err := paramsFor(ctx, t, of).Get("c"); err != nil {
		t.Error(err)
	}
}

// A parameter is decoded once for each of its revisions, and is the object that clients see.
func TestParamsAreDecodedOnce(t *testing.T) {
	of, put := policiesIn(t)
	put("configmaps", &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c", Labels: map[string]string{"a": "b"}}, Data: map[string]string{"k": "v"}})
	first, err := paramsFor(t.Context(), t, of).Get("c")
	if err != nil {
		t.Fatal(err)
	}
	if value, _, _ := unstructured.NestedString(first.(*unstructured.Unstructured).Object, "data", "k"); value != "v" {
		t.Errorf("got %v", first)
	}
	listed, err := paramsFor(t.Context(), t, of).List(labels.SelectorFromSet(labels.Set{"a": "b"}))
	if err != nil || len(listed) != 1 || listed[0] != first {
		t.Errorf("%v, %v: decoded again", listed, err)
	}
	p := paramsFor(t.Context(), t, of)
	key := p.served.KeyOf("a", "c")
	live, err := of.store.Get(t.Context(), key, resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	draft, err := p.served.NewDraft(t.Context(), &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "c"}, Data: map[string]string{"k": "w"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := of.store.(resources.Store).Commit(t.Context(), resources.Write{Op: resources.Update, Key: key, From: live.Revision, Draft: draft}); err != nil {
		t.Fatal(err)
	}
	second, err := p.Get("c")
	if err != nil {
		t.Fatal(err)
	}
	if value, _, _ := unstructured.NestedString(second.(*unstructured.Unstructured).Object, "data", "k"); value != "w" {
		t.Errorf("got %v after the update", second)
	}
}

// Parameters are read in the context of the request.
func TestParamsEndWithTheirRequest(t *testing.T) {
	of, put := policiesIn(t)
	for _, name := range []string{"c", "d"} {
		put("configmaps", &api.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}})
	}
	ctx, end := context.WithCancel(t.Context())
	p := paramsFor(ctx, t, of)
	if p.ctx != ctx {
		t.Error("the context is not that of the request")
	}
	end()
	if found, err := p.List(labels.Everything()); !errors.Is(err, context.Canceled) {
		t.Errorf("%d found, %v", len(found), err)
	}
}

// Decoded parameters take a bounded amount of memory.
func TestDecodedParamsAreBounded(t *testing.T) {
	s := &shownParams{objects: map[resources.Key]shownParam{}}
	obj := &unstructured.Unstructured{}
	large := []byte(strings.Repeat("x", maxShown/4))
	for i := range 100 {
		o := &resources.Object{Key: resources.Key{Resource: "configmaps", Name: string(rune('a' + i%26))}, Revision: int64(i + 1)}
		o.Data = large
		s.add(o, obj)
		total := 0
		for _, p := range s.objects {
			total += p.size
		}
		if total != s.size || total > maxShown || s.get(o) == nil {
			t.Fatalf("%d objects of %d bytes, counted as %d", len(s.objects), total, s.size)
		}
	}
	quotes := &resources.Object{Key: resources.Key{Name: "quotes"}, Revision: 1}
	quotes.Data = []byte(strings.Repeat(`"`, maxShown/8))
	if s.add(quotes, obj); s.get(quotes) != nil {
		t.Error("an object of many small members is kept")
	}
}

// A policy whose parameters are of no served type has an error, and does not share it with the set.
func TestParamsOfNoType(t *testing.T) {
	of, _ := policiesIn(t)
	d := &given{}
	hooks := []hook[validatingPolicy, validatingBinding, int]{{Policy: &admissionregistrationv1.ValidatingAdmissionPolicy{
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{ParamKind: &admissionregistrationv1.ParamKind{APIVersion: "a.b/v1", Kind: "C"}}}}}
	if err := (withParams[validatingPolicy, validatingBinding, int]{d, of}).Dispatch(t.Context(), nil, nil, hooks); err != nil {
		t.Fatal(err)
	}
	gvk := schema.GroupVersionKind{Group: "a.b", Version: "v1", Kind: "C"}
	if err := d.hooks[0].ConfigurationError; err == nil || !strings.Contains(err.Error(), gvk.String()) || hooks[0].ConfigurationError != nil {
		t.Errorf("%v, %v", err, hooks[0].ConfigurationError)
	}
}
