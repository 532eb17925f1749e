package authz

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	certificatesinformers "k8s.io/client-go/informers/certificates/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	storageinformers "k8s.io/client-go/informers/storage/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/auth/nodeidentifier"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// Node allows kubelets to read what the pods on their nodes need. It uses upstream's authorizer and its graph, which is built
// at the first request of a kubelet, and kept up to date from then on. It is safe for concurrent use.
type Node struct {
	graph *nodeGraph
	feed  *feed
}

// identifier recognises nodes by their names and groups.
var identifier = nodeidentifier.NewDefaultNodeIdentifier()

// nodeTypes are the types that the graph is built from, each with an empty object of its storage version.
var nodeTypes = map[string]func() metav1.Object{
	"pods":                                       func() metav1.Object { return &corev1.Pod{} },
	"persistentvolumes":                          func() metav1.Object { return &corev1.PersistentVolume{} },
	"volumeattachments.storage.k8s.io":           func() metav1.Object { return &storagev1.VolumeAttachment{} },
	"resourceslices.resource.k8s.io":             func() metav1.Object { return &resourcev1.ResourceSlice{} },
	"podcertificaterequests.certificates.k8s.io": func() metav1.Object { return &certificatesv1.PodCertificateRequest{} },
}

// NewNode returns the authorizer of kubelets.
func NewNode(store resources.View) *Node {
	n := &Node{graph: &nodeGraph{}}
	var names []string
	for name := range nodeTypes {
		names = append(names, name)
	}
	n.feed = newFeed(store, n.graph, names...)
	return n
}

// Run keeps the graph up to date even without requests, once it was built, until ctx ends.
func (n *Node) Run(ctx context.Context, logger *slog.Logger) { n.feed.run(ctx, logger) }

// Authorize implements authorizer.Authorizer.
func (n *Node) Authorize(ctx context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if _, is := identifier.NodeIdentity(a.GetUser()); !is {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if err := n.feed.fresh(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", fmt.Errorf("node: %w", err)
	}
	return n.graph.authorizer.Load().Authorize(ctx, a)
}

// ConditionsAwareAuthorize implements authorizer.Authorizer: no rule has conditions.
func (n *Node) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(n.Authorize(ctx, a))
}

// EvaluateConditions implements authorizer.Authorizer: there are none.
func (*Node) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// RulesFor implements authorizer.RuleResolver: the permissions of a node cannot be listed.
func (n *Node) RulesFor(ctx context.Context, who user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	return node.NewAuthorizer(nil, identifier, nil).RulesFor(ctx, who, namespace)
}

// nodeGraph is the index of the objects that each node needs.
type nodeGraph struct {
	authorizer atomic.Pointer[node.NodeAuthorizer]
	handlers   map[string]*handler
}

// handler is upstream's event handler for the objects of a type.
type handler struct {
	cache.ResourceEventHandler

	// seen holds, for each object, the fields that upstream compares when it changes; see remembered.
	seen map[resources.Key]metav1.Object
}

func (g *nodeGraph) replace(objects []*resources.Object, events []*resources.Event) error {
	upstream.CountNodeGraph()
	g.handlers = map[string]*handler{}
	graph := node.NewGraph()
	listen := func(resource string) listening {
		g.handlers[resource] = &handler{seen: map[resources.Key]metav1.Object{}}
		return listening{handler: g.handlers[resource]}
	}
	node.AddGraphEventHandlers(graph, nil, podInformer{informer: listen("pods")}, volumeInformer{informer: listen("persistentvolumes")},
		attachmentInformer{informer: listen("volumeattachments.storage.k8s.io")}, sliceInformer{informer: listen("resourceslices.resource.k8s.io")},
		requestInformer{informer: listen("podcertificaterequests.certificates.k8s.io")})
	for _, o := range objects {
		if err := g.put(o); err != nil {
			return err
		}
	}
	if err := g.apply(events); err != nil {
		return err
	}
	g.authorizer.Store(node.NewAuthorizer(graph, identifier, bootstrappolicy.NodeRules()))
	return nil
}

func (g *nodeGraph) apply(events []*resources.Event) error {
	for _, e := range events {
		if e.Op != resources.Delete {
			if err := g.put(e.Object); err != nil {
				return err
			}
			continue
		}
		obj, err := decoded(e.Object)
		if err != nil {
			return err
		}
		h := g.handlers[e.Object.Resource]
		h.OnDelete(obj)
		delete(h.seen, e.Object.Key)
	}
	return nil
}

func (g *nodeGraph) put(o *resources.Object) error {
	obj, err := decoded(o)
	if err != nil {
		return err
	}
	h := g.handlers[o.Resource]
	if before, known := h.seen[o.Key]; known {
		h.OnUpdate(before, obj)
	} else {
		h.OnAdd(obj, false)
	}
	h.seen[o.Key] = remembered(obj)
	return nil
}

func decoded(o *resources.Object) (metav1.Object, error) {
	obj := nodeTypes[o.Resource]()
	if err := json.Unmarshal(o.Data, obj); err != nil {
		return nil, &resources.DecodeError{Key: o.Key, Err: err}
	}
	return obj, nil
}

// remembered returns a copy of an object with only the fields that upstream compares with those of a later state.
func remembered(obj metav1.Object) metav1.Object {
	switch is := obj.(type) {
	case *corev1.Pod:
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: is.UID},
			Spec:   corev1.PodSpec{NodeName: is.Spec.NodeName, EphemeralContainers: make([]corev1.EphemeralContainer, len(is.Spec.EphemeralContainers))},
			Status: corev1.PodStatus{ResourceClaimStatuses: is.Status.ResourceClaimStatuses, ExtendedResourceClaimStatus: is.Status.ExtendedResourceClaimStatus}}
	case *storagev1.VolumeAttachment:
		return &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{NodeName: is.Spec.NodeName}}
	case *corev1.PersistentVolume:
		return &corev1.PersistentVolume{}
	}
	return nil
}

// listening is an informer whose handlers nodeGraph calls.
type listening struct {
	cache.SharedIndexInformer // nil

	handler *handler
}

// AddEventHandler implements cache.SharedIndexInformer.
func (l listening) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	l.handler.ResourceEventHandler = h
	return synced{}, nil
}

// synced is a registration that is always synced.
type synced struct {
	cache.ResourceEventHandlerRegistration // nil
}

// HasSynced implements cache.ResourceEventHandlerRegistration.
func (synced) HasSynced() bool { return true }

// The informers that upstream takes; it only adds handlers to them.
type (
	podInformer struct {
		coreinformers.PodInformer
		informer listening
	}
	volumeInformer struct {
		coreinformers.PersistentVolumeInformer
		informer listening
	}
	attachmentInformer struct {
		storageinformers.VolumeAttachmentInformer
		informer listening
	}
	sliceInformer struct {
		resourceinformers.ResourceSliceInformer
		informer listening
	}
	requestInformer struct {
		certificatesinformers.PodCertificateRequestInformer
		informer listening
	}
)

// Informer implements each of them.
func (i podInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Informer implements each of them.
func (i volumeInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Informer implements each of them.
func (i attachmentInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Informer implements each of them.
func (i sliceInformer) Informer() cache.SharedIndexInformer { return i.informer }

// Informer implements each of them.
func (i requestInformer) Informer() cache.SharedIndexInformer { return i.informer }
