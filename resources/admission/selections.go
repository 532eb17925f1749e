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

// selection is what a webhook, or a policy, says of the writes that it is for.
type selection struct {
	// rules are those one of which has to fit. unruled: it is for all.
	rules   []admissionregistrationv1.RuleWithOperations
	unruled bool
	// equivalent: a rule for one version of a resource is for all of them.
	equivalent bool
	// namespaces and objects are what labels have to be like.
	namespaces, objects labels.Selector
}

// newSelection reads what is said. A selector that cannot be read selects all: whoever reads it next says what is wrong with it.
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

// selections find out that none of many webhooks or policies is for a write, which they do for most of all writes, in the time that
// upstream's plugins need for one of them. They may only say that there is none: in all other cases upstream's code decides.
type selections struct {
	all      []selection
	store    resources.Reader
	registry *resources.Registry

	mu sync.RWMutex
	// catalog is the one that known belongs to: which resources are equivalent depends on it. It is not kept because of that.
	catalog weak.Pointer[resources.Catalog]
	// known are the indexes of those of all whose rules fit, by what rules ask for. There are no more kinds of requests than are served.
	known map[request][]int
}

// request is what rules ask for in a write.
type request struct {
	resource    schema.GroupVersionResource
	subresource string
	operation   admission.Operation
	namespaced  bool
}

// none tells that none of them is for the write.
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

// ruled are the indexes of those whose rules fit.
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

// fits tells whether a rule fits the resource of the write, or one of its equivalents.
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

// elsewhere are the attributes of a write as if it were of another resource.
type elsewhere struct {
	admission.Attributes
	resource schema.GroupVersionResource
}

func (e elsewhere) GetResource() schema.GroupVersionResource { return e.resource }

// writtenLabels are those of a write, read when they are first asked for.
type writtenLabels struct {
	namespace, object, old           labels.Set
	knowsNamespace, knowsObjects     bool
	namespaceUnknown, hasObj, hasOld bool
}

// selects tells whether labels are as they have to be.
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

// namespaceLabels are those of the namespace that a write is in, or of the one that is written. unknown: upstream has to ask.
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
