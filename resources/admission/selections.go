package admission

import (
	"context"
	"slices"
	"sync"
	"weak"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/rules"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// selection has the conditions under which a webhook or a policy applies to a write.
type selection struct {
	// rules: one of these has to match. unruled: it applies to all writes.
	rules   []admissionregistrationv1.RuleWithOperations
	unruled bool
	// equivalent: a rule for one version of a resource is for all of them.
	equivalent bool
	// namespaces and objects are the label selectors.
	namespaces, objects labels.Selector
}

// newSelection reads the conditions. An invalid selector selects everything: the next reader reports the error.
func newSelection(rules []admissionregistrationv1.RuleWithOperations, policy *admissionregistrationv1.MatchPolicyType, namespaces, objects *metav1.LabelSelector) selection {
	return selection{rules: rules, equivalent: policy == nil || *policy == admissionregistrationv1.Equivalent,
		namespaces: readSelector(namespaces), objects: readSelector(objects)}
}

func readSelector(written *metav1.LabelSelector) labels.Selector {
	s, err := metav1.LabelSelectorAsSelector(written)
	if err != nil || written == nil {
		return labels.Everything()
	}
	return s
}

// selections establish that none of many webhooks or policies applies to a write, which is so for most writes, in the time that
// upstream's plugins need for one of them. That is their only definite answer: in all other cases upstream's code decides.
type selections struct {
	all      []selection
	store    resources.Reader
	registry *resources.Registry

	mu sync.RWMutex
	// catalog is the catalog of known: the equivalents of a resource depend on it. The pointer is weak, so known does not keep the
	// catalog alive.
	catalog weak.Pointer[resources.Catalog]
	// known has the indexes in all of the selections whose rules match, by request. Their number is bounded by the served resources.
	known map[request][]int
}

// request has the attributes of a write that rules depend on.
type request struct {
	resource    schema.GroupVersionResource
	subresource string
	operation   admission.Operation
	namespaced  bool
}

// none reports that no selection applies to the write.
func (s *selections) none(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) bool {
	if len(s.all) == 0 {
		return true
	}
	if !fastpath.Selections.On() {
		return false
	}
	var written writtenLabels
	for _, i := range s.ruled(ctx, a, o) {
		if s.selects(&s.all[i], a, &written) {
			fastpath.Selections.Fallback()
			return false
		}
	}
	return true
}

// ruled are the indexes of the selections whose rules match.
func (s *selections) ruled(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) []int {
	catalog := s.registry.CatalogOf(ctx)
	r := request{a.GetResource(), a.GetSubresource(), a.GetOperation(), a.GetNamespace() != ""}
	s.mu.RLock()
	found, ok := s.known[r]
	ok = ok && s.catalog.Value() == catalog
	s.mu.RUnlock()
	if ok {
		return found
	}
	equivalents := slices.DeleteFunc(o.GetEquivalentResourceMapper().EquivalentResourcesFor(r.resource, r.subresource),
		func(other schema.GroupVersionResource) bool { return other == r.resource })
	found = nil
	for i := range s.all {
		if s.all[i].fits(a, equivalents) {
			found = append(found, i)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.catalog.Value() != catalog || s.known == nil {
		s.catalog, s.known = weak.Make(catalog), map[request][]int{}
	}
	s.known[r] = found
	return found
}

// fits reports whether a rule matches the resource of the write, or one of its equivalents.
func (s *selection) fits(a admission.Attributes, equivalents []schema.GroupVersionResource) bool {
	if s.unruled {
		return true
	}
	for _, rule := range s.rules {
		if m := (rules.Matcher{Rule: rule, Attr: a}); m.Matches() {
			return true
		}
		if !s.equivalent {
			continue
		}
		for _, other := range equivalents {
			if m := (rules.Matcher{Rule: rule, Attr: elsewhere{a, other}}); m.Matches() {
				return true
			}
		}
	}
	return false
}

// elsewhere has the attributes of a write with another resource.
type elsewhere struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

func (e elsewhere) GetResource() schema.GroupVersionResource { return e.resource }

// writtenLabels are the labels in a write, read on first use.
type writtenLabels struct {
	namespace, object, old           labels.Set
	knowsNamespace, knowsObjects     bool
	namespaceUnknown, hasObj, hasOld bool
}

// selects reports whether the labels satisfy the selectors.
func (s *selections) selects(one *selection, a admission.Attributes, w *writtenLabels) bool {
	if !one.objects.Empty() {
		if !w.knowsObjects {
			w.object, w.hasObj = labelsOf(a.GetObject())
			w.old, w.hasOld = labelsOf(a.GetOldObject())
			w.knowsObjects = true
		}
		if !(w.hasObj && one.objects.Matches(w.object)) && !(w.hasOld && one.objects.Matches(w.old)) {
			return false
		}
	}
	if one.namespaces.Empty() || a.GetNamespace() == "" && a.GetResource().Resource != "namespaces" {
		return true
	}
	if !w.knowsNamespace {
		w.namespace, w.namespaceUnknown = s.namespaceLabels(a)
		w.knowsNamespace = true
	}
	return w.namespaceUnknown || one.namespaces.Matches(w.namespace)
}

// namespaceLabels are the labels of the namespace of a write, or of the written namespace. unknown: upstream has to decide.
func (s *selections) namespaceLabels(a admission.Attributes) (l labels.Set, unknown bool) {
	written := a.GetOperation() == admission.Create || a.GetOperation() == admission.Update
	if a.GetResource().Resource == "namespaces" && a.GetSubresource() == "" && written {
		l, ok := labelsOf(a.GetObject())
		return l, !ok
	}
	key := resources.Key{Resource: "namespaces", Name: a.GetNamespace()}
	o, err := s.store.Get(context.Background(), key, resources.At{Match: resources.Any})
	if err != nil {
		return nil, true
	}
	return o.Labels, false
}

func labelsOf(obj runtime.Object) (labels.Set, bool) {
	if obj == nil {
		return nil, false
	}
	m, err := meta.Accessor(obj)
	if err != nil {
		return nil, false
	}
	return m.GetLabels(), true
}
