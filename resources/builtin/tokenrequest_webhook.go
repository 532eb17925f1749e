package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// mostWebhookSeconds bounds the life of a token for a webhook.
const mostWebhookSeconds = 10 * 60

// bindWebhook finds the configuration of webhooks that a token is to be bound to. With such a token a server that extends the API
// authenticates itself to a webhook that it sends reviews to (the alpha gate APIServerWebhookAuthenticationToken,
// k8s.io/kubernetes/pkg/registry/core/serviceaccount/storage). The ServiceAccount must have the right to attest reviews of the group, and a
// webhook of the configuration, which the audience names, must have a rule for it. Behind that right, every error says only that the request
// is denied.
func (i *issue) bindWebhook(ctx context.Context, gvk schema.GroupVersionKind, account *core.ServiceAccount, req *authentication.TokenRequest) (bound, types.UID, error) {
	if !utilfeature.DefaultFeatureGate.Enabled(genericfeatures.APIServerWebhookAuthenticationToken) {
		return bound{}, "", apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s (feature gate %s is disabled)", gvk, genericfeatures.APIServerWebhookAuthenticationToken))
	}
	if slices.ContainsFunc(req.Spec.Audiences, func(a string) bool { return slices.Contains(i.audiences, a) }) {
		return bound{}, "", apierrors.NewBadRequest("api server audiences are invalid for webhook token requests")
	}
	// Validation has checked that there is one of each.
	group, audience := req.Spec.Attestations[authentication.AttestationAdmissionReviewAPIGroups][0], req.Spec.Audiences[0]
	req.Spec.ExpirationSeconds = min(req.Spec.ExpirationSeconds, mostWebhookSeconds)
	if err := i.mayAttest(ctx, account, group); err != nil {
		return bound{}, "", err
	}
	b, meta, hooks, err := i.webhooks(ctx, gvk.Kind, req.Spec.BoundObjectRef.Name)
	asked := func(w webhook) bool { return w.asks(group) && w.is(audience) }
	if err != nil || meta.DeletionTimestamp != nil && req.CreationTimestamp.After(meta.DeletionTimestamp.Time) || group != "*" && !slices.ContainsFunc(hooks, asked) {
		return bound{}, "", apierrors.NewForbidden(schema.GroupResource{Resource: "serviceaccounts/token"}, account.Name, errors.New("token request denied"))
	}
	return b, meta.UID, nil
}

// mayAttest asks whether a ServiceAccount may attest reviews of a group.
func (i *issue) mayAttest(ctx context.Context, account *core.ServiceAccount, group string) error {
	who := serviceaccount.ServiceAccountInfo{Name: account.Name, Namespace: account.Namespace, UID: string(account.UID)}
	a := authorizer.AttributesRecord{User: who.UserInfo(), Verb: "attest", APIGroup: authentication.GroupName, APIVersion: "*",
		Resource: authentication.AttestationAdmissionReviewAPIGroups, Name: group, ResourceRequest: true}
	decision, reason, err := i.authorizer.Authorize(ctx, a)
	switch {
	case decision == authorizer.DecisionAllow:
		return nil
	case err != nil && reason != "":
		reason = fmt.Sprintf("%v: %s", err, reason)
	case err != nil:
		reason = err.Error()
	}
	return resources.Forbidden(&a, reason)
}

// webhook has the relevant fields of a webhook.
type webhook struct {
	at    *admissionregistration.WebhookClientConfig
	rules []admissionregistration.RuleWithOperations
}

func (i *issue) webhooks(ctx context.Context, kind, name string) (b bound, meta metav1.ObjectMeta, hooks []webhook, err error) {
	if kind == "ValidatingWebhookConfiguration" {
		c, err := refer[*admissionregistration.ValidatingWebhookConfiguration](ctx, i.op, i.validatingWebhooks, "", name)
		if err != nil {
			return b, meta, nil, err
		}
		for n := range c.Webhooks {
			hooks = append(hooks, webhook{&c.Webhooks[n].ClientConfig, c.Webhooks[n].Rules})
		}
		b.validating = &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: c.ObjectMeta}
		return b, c.ObjectMeta, hooks, nil
	}
	c, err := refer[*admissionregistration.MutatingWebhookConfiguration](ctx, i.op, i.mutatingWebhooks, "", name)
	if err != nil {
		return b, meta, nil, err
	}
	for n := range c.Webhooks {
		hooks = append(hooks, webhook{&c.Webhooks[n].ClientConfig, c.Webhooks[n].Rules})
	}
	b.mutating = &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: c.ObjectMeta}
	return b, c.ObjectMeta, hooks, nil
}

// asks reports whether the webhook has a rule for a group.
func (w webhook) asks(group string) bool {
	return slices.ContainsFunc(w.rules, func(r admissionregistration.RuleWithOperations) bool {
		return slices.Contains(r.APIGroups, "*") || slices.Contains(r.APIGroups, group)
	})
}

// is reports whether an audience is the URL of the webhook, or of its Service, with port and path.
func (w webhook) is(audience string) bool {
	if w.at.URL != nil && audience == *w.at.URL {
		return true
	}
	s := w.at.Service
	if s == nil {
		return false
	}
	port, path := s.Port, "/"
	if port == 0 {
		port = 443
	}
	if s.Path != nil {
		path = "/" + strings.TrimPrefix(*s.Path, "/")
	}
	return audience == fmt.Sprintf("https://%s.%s.svc:%d%s", s.Name, s.Namespace, port, path)
}
