package authn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/token/union"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// ServiceAccounts say which tokens of ServiceAccounts are accepted.
type ServiceAccounts struct {
	// Issuers are the accepted issuers.
	Issuers []string
	// Keys verify the signatures.
	Keys Keys
	// Store has the ServiceAccounts and the objects that tokens are bound to: a token is valid as long as these exist.
	Store resources.Reader
	// NoLookup accepts a token of a Secret even when the Secret or its ServiceAccount does not exist.
	NoLookup bool
	// Secrets marks the Secrets whose tokens were used, with the day.
	Secrets typedcorev1.SecretsGetter
}

// Keys are public keys that may be exchanged.
type Keys interface {
	serviceaccount.PublicKeysGetter
	// State identifies the keys that are accepted now: a result of other keys is no longer valid.
	State() any
}

// tokens returns the authenticators of tokens in Secrets and of tokens from TokenRequests, in upstream's order.
func (s *ServiceAccounts) tokens(audiences []string) (authenticator.Token, error) {
	upstream.CountServiceAccountTokens()
	objects := storedObjects{s.Store}
	legacy, err := serviceaccount.NewLegacyValidator(!s.NoLookup, objects, s.Secrets)
	if err != nil {
		return nil, fmt.Errorf("tokens of Secrets: %w", err)
	}
	return union.New(
		serviceaccount.JWTTokenAuthenticator([]string{serviceaccount.LegacyIssuer}, s.Keys, audiences, legacy),
		serviceaccount.JWTTokenAuthenticator(s.Issuers, s.Keys, audiences, serviceaccount.NewValidator(objects)),
	), nil
}

// storedObjects is a serviceaccount.ServiceAccountTokenGetter. It notes the objects that it reads for the token cache.
type storedObjects struct{ store resources.Reader }

// GetServiceAccount implements serviceaccount.ServiceAccountTokenGetter.
func (s storedObjects) GetServiceAccount(ctx context.Context, namespace, name string) (*corev1.ServiceAccount, error) {
	obj := &corev1.ServiceAccount{}
	return obj, s.read(ctx, schema.GroupResource{Resource: "serviceaccounts"}, namespace, name, obj)
}

// GetSecret implements serviceaccount.ServiceAccountTokenGetter.
func (s storedObjects) GetSecret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	obj := &corev1.Secret{}
	return obj, s.read(ctx, schema.GroupResource{Resource: "secrets"}, namespace, name, obj)
}

// GetPod implements serviceaccount.ServiceAccountTokenGetter. The Pod has only metadata.
func (s storedObjects) GetPod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	meta, err := s.metadata(ctx, schema.GroupResource{Resource: "pods"}, namespace, name)
	return &corev1.Pod{ObjectMeta: meta}, err
}

// GetNode implements serviceaccount.ServiceAccountTokenGetter. The Node has only metadata.
func (s storedObjects) GetNode(ctx context.Context, name string) (*corev1.Node, error) {
	meta, err := s.metadata(ctx, schema.GroupResource{Resource: "nodes"}, "", name)
	return &corev1.Node{ObjectMeta: meta}, err
}

// GetValidatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter. The object has only metadata.
func (s storedObjects) GetValidatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	meta, err := s.metadata(ctx, admissionregistrationv1.Resource("validatingwebhookconfigurations"), "", name)
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta}, err
}

// GetMutatingWebhookConfiguration implements serviceaccount.ServiceAccountTokenGetter. The object has only metadata.
func (s storedObjects) GetMutatingWebhookConfiguration(ctx context.Context, name string) (*admissionregistrationv1.MutatingWebhookConfiguration, error) {
	meta, err := s.metadata(ctx, admissionregistrationv1.Resource("mutatingwebhookconfigurations"), "", name)
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}, err
}

func (s storedObjects) metadata(ctx context.Context, gr schema.GroupResource, namespace, name string) (metav1.ObjectMeta, error) {
	var obj struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	err := s.read(ctx, gr, namespace, name, &obj)
	return obj.Metadata, err
}

// read decodes an object. If this server does not have it, another server may have created it a moment ago.
func (s storedObjects) read(ctx context.Context, gr schema.GroupResource, namespace, name string, obj any) error {
	key := resources.Key{Resource: gr.String(), Namespace: namespace, Name: name}
	o, err := s.store.Get(ctx, key, resources.At{Match: resources.Any})
	if errors.Is(err, resources.ErrNotFound) {
		o, err = s.store.Get(ctx, key, resources.At{Match: resources.MostRecent})
	}
	if errors.Is(err, resources.ErrNotFound) {
		return apierrors.NewNotFound(gr, name)
	}
	if err != nil {
		return err
	}
	note(ctx, o)
	if err := json.Unmarshal(o.Data, obj); err != nil {
		return &resources.DecodeError{Key: o.Key, Err: err}
	}
	return nil
}
