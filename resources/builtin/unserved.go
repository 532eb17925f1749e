package builtin

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// The subresources behind which stand a kubelet, a network or a token signer. They are in discovery, and answer with
// the error that kube-apiserver has where it can already say so, else with 501.

var (
	connectVerbs = []string{"create", "get"}
	proxyVerbs   = []string{"create", "delete", "get", "patch", "update"}
)

func serviceProxy() *resources.Subresource {
	return &resources.Subresource{
		Name: "proxy", Kind: coreV1.WithKind("ServiceProxyOptions"), Verbs: proxyVerbs,
		Unserved: func(_ context.Context, _ resources.Store, _, name string) error {
			// A service that is not there has no endpoints either: kube-apiserver gives both the same answer.
			return apierrors.NewServiceUnavailable(fmt.Sprintf("no endpoints available for service %q", name))
		},
	}
}

func nodeProxy(nodes *resources.Type) *resources.Subresource {
	return &resources.Subresource{
		Name: "proxy", Kind: coreV1.WithKind("NodeProxyOptions"), Verbs: proxyVerbs,
		Unserved: func(ctx context.Context, s resources.Store, _, name string) error {
			if _, err := find[*core.Node](ctx, s, nodes, nodes.KeyOf("", name)); err != nil {
				return err
			}
			return notImplemented("this server does not connect to nodes")
		},
	}
}

func tokenRequest(serviceAccounts *resources.Type) *resources.Subresource {
	return &resources.Subresource{
		Name: "token", Kind: authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"), Verbs: []string{"create"},
		Unserved: func(ctx context.Context, s resources.Store, namespace, name string) error {
			if _, err := find[*core.ServiceAccount](ctx, s, serviceAccounts, serviceAccounts.KeyOf(namespace, name)); err != nil {
				return err
			}
			return notImplemented("this server does not issue tokens")
		},
	}
}

// podConnections are the ways into a running pod.
func podConnections(pods, nodes *resources.Type) []*resources.Subresource {
	c := podConnection{pods: pods, nodes: nodes}
	return []*resources.Subresource{
		{Name: "attach", Kind: coreV1.WithKind("PodAttachOptions"), Verbs: connectVerbs, Unserved: c.toPod},
		{Name: "exec", Kind: coreV1.WithKind("PodExecOptions"), Verbs: connectVerbs, Unserved: c.toPod},
		{Name: "log", Kind: coreV1.WithKind("Pod"), Verbs: []string{"get"}, Unserved: c.toLog},
		{Name: "portforward", Kind: coreV1.WithKind("PodPortForwardOptions"), Verbs: connectVerbs, Unserved: c.toPod},
		{Name: "proxy", Kind: coreV1.WithKind("PodProxyOptions"), Verbs: proxyVerbs, Unserved: c.toAddress},
	}
}

type podConnection struct{ pods, nodes *resources.Type }

// toPod is refused for what can be known of the pod and its node alone.
func (c podConnection) toPod(ctx context.Context, s resources.Store, namespace, name string) error {
	pod, err := find[*core.Pod](ctx, s, c.pods, c.pods.KeyOf(namespace, name))
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" {
		return apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	if _, err := s.Get(ctx, c.nodes.KeyOf("", pod.Spec.NodeName), resources.At{}); errors.Is(err, resources.ErrNotFound) {
		// kube-apiserver calls the missing node a pod.
		return apierrors.NewNotFound(c.pods.GroupResource, pod.Spec.NodeName)
	} else if err != nil {
		return err
	}
	return notImplemented("this server does not connect to nodes")
}

// toLog has nothing to show of a pod that no node has begun to run, which is no error.
func (c podConnection) toLog(ctx context.Context, s resources.Store, namespace, name string) error {
	pod, err := find[*core.Pod](ctx, s, c.pods, c.pods.KeyOf(namespace, name))
	if err == nil && pod.Spec.NodeName == "" {
		return nil
	}
	return c.toPod(ctx, s, namespace, name)
}

func (c podConnection) toAddress(ctx context.Context, s resources.Store, namespace, name string) error {
	pod, err := find[*core.Pod](ctx, s, c.pods, c.pods.KeyOf(namespace, name))
	if err != nil {
		return err
	}
	if len(pod.Status.PodIPs) == 0 {
		return apierrors.NewBadRequest("address not allowed")
	}
	return notImplemented("this server does not connect to pods")
}

// find reads an object in the hub form. Errors: a NotFound status, those of resources.Reader.
func find[P runtime.Object](ctx context.Context, s resources.Reader, t *resources.Type, key resources.Key) (P, error) {
	var none P
	o, err := s.Get(ctx, key, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return none, apierrors.NewNotFound(t.GroupResource, key.Name)
	}
	if err != nil {
		return none, err
	}
	hub, err := t.DecodeHub(o)
	if err != nil {
		return none, err
	}
	return hub.(P), nil
}

func notImplemented(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Message: message,
	}}
}
