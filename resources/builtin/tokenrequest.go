package builtin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericfeatures "k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authentication/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/features"
	token "k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/resources"
)

// Tokens makes the tokens of ServiceAccounts.
type Tokens struct {
	// Generator signs them.
	Generator token.TokenGenerator
	// MaxExpiration bounds the life of a token. 0: there is no bound.
	MaxExpiration time.Duration
	// ExtendExpiration makes tokens that admission requests on behalf of Pods live for a year.
	ExtendExpiration bool
}

var tokenRequestKind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// tokenRequest answers a create of serviceaccounts/token ("TokenRequest" of the API reference). As with kube-apiserver, validating
// admission sees the complete request, with the audiences and the account of the token, and no invalid request.
func tokenRequest(p Parts, serviceAccounts *resources.Type, to boundTypes) *resources.Subresource {
	begin := func(ctx context.Context, o *resources.Operation, obj runtime.Object) (issue, *authentication.TokenRequest, error) {
		if p.Tokens == nil {
			return issue{}, nil, notImplemented("this server does not issue tokens")
		}
		req, ok := obj.(*authentication.TokenRequest)
		if !ok {
			return issue{}, nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
		}
		return issue{Tokens: p.Tokens, audiences: p.Audiences, authorizer: p.Authorizer, op: o, serviceAccounts: serviceAccounts, boundTypes: to,
			namespace: genericapirequest.NamespaceValue(ctx)}, req, nil
	}
	return &resources.Subresource{
		Name: "token", Kind: tokenRequestKind, Verbs: []string{"create"}, KeepMeta: true,
		Complete: func(ctx context.Context, o *resources.Operation, name string, obj runtime.Object, _ *metav1.CreateOptions) (context.Context, error) {
			i, req, err := begin(ctx, o, obj)
			if err != nil {
				return ctx, err
			}
			seen, err := i.complete(ctx, name, req)
			return context.WithValue(ctx, seenUID{}, seen), err
		},
		Create: func(ctx context.Context, o *resources.Operation, name string, obj runtime.Object, _ *metav1.CreateOptions) (runtime.Object, error) {
			i, req, err := begin(ctx, o, obj)
			if err != nil {
				return nil, err
			}
			return i.answer(ctx, name, req)
		},
	}
}

// seenUID is the context key for the UID of the ServiceAccount that admission saw. The request itself may name another one, while
// TokenRequestServiceAccountUIDValidation is off.
type seenUID struct{}

// boundTypes are the types of objects that a token can be bound to.
type boundTypes struct{ pods, secrets, nodes, validatingWebhooks, mutatingWebhooks *resources.Type }

// issue is the issue of one token.
type issue struct {
	*Tokens
	boundTypes
	audiences       []string
	authorizer      authorizer.UnconditionalAuthorizer
	op              *resources.Operation
	serviceAccounts *resources.Type
	namespace       string
}

// bound is the object that a token is bound to.
type bound struct {
	pod        *core.Pod
	node       *core.Node
	secret     *core.Secret
	validating *admissionregistrationv1.ValidatingWebhookConfiguration
	mutating   *admissionregistrationv1.MutatingWebhookConfiguration
}

// answer makes the token for a complete request, and for the account that complete has found: while admission decided, which may take
// webhooks half a minute, another account may have taken the name.
func (i *issue) answer(ctx context.Context, name string, req *authentication.TokenRequest) (runtime.Object, error) {
	account, err := i.account(ctx, name)
	if err != nil {
		return nil, err
	}
	if seen, _ := ctx.Value(seenUID{}).(types.UID); seen != account.UID {
		return nil, conflict(account, differ(seen, account))
	}
	var b bound
	if req.Spec.BoundObjectRef != nil {
		if b, err = i.bind(ctx, account, req); err != nil {
			return nil, err
		}
	}
	if most := int64(i.MaxExpiration.Seconds()); most > 0 && req.Spec.ExpirationSeconds > most {
		warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", req.Spec.ExpirationSeconds, most))
		req.Spec.ExpirationSeconds = most
	}
	life, warnAfter := i.life(req, b)
	claims, private, err := token.Claims(*account, b.pod, b.secret, b.node, b.validating, b.mutating, life, warnAfter, req.Spec.Audiences, req.Spec.Attestations)
	if err != nil {
		return nil, err
	}
	signed, err := i.Generator.GenerateToken(ctx, claims, private)
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("failed to generate token: %w", err))
	}
	if utilfeature.DefaultFeatureGate.Enabled(features.ServiceAccountTokenJTI) && claims.ID != "" {
		audit.AddAuditAnnotation(ctx, serviceaccount.IssuedCredentialIDAuditAnnotationKey, jwt.CredentialIDForJTI(claims.ID))
	}
	req.Status = authentication.TokenRequestStatus{Token: signed,
		ExpirationTimestamp: metav1.NewTime(req.CreationTimestamp.Add(time.Duration(req.Spec.ExpirationSeconds) * time.Second))}
	return req, nil
}

// matches compares the names in the body with those of the path.
func (i *issue) matches(req *authentication.TokenRequest, name string) error {
	invalid := func(child, value, message string) error {
		return apierrors.NewInvalid(tokenRequestKind.GroupKind(), name,
			field.ErrorList{field.Invalid(field.NewPath("metadata").Child(child), value, message)})
	}
	switch {
	case req.Name != "" && req.Name != name:
		return invalid("name", req.Name, "must match the service account name if specified")
	case req.Namespace != "" && req.Namespace != i.namespace:
		return invalid("namespace", req.Namespace, "must match the service account namespace if specified")
	}
	return nil
}

func (i *issue) account(ctx context.Context, name string) (*core.ServiceAccount, error) {
	key, err := i.serviceAccounts.RequestKey(ctx, name)
	if err != nil {
		return nil, err
	}
	return find[*core.ServiceAccount](ctx, i.op, i.serviceAccounts, key)
}

// differ is upstream's text for an account with another UID than the requested one.
func differ(asked types.UID, account *core.ServiceAccount) string {
	return fmt.Sprintf("the UID in the token request (%s) does not match the UID of the service account (%s)", asked, account.UID)
}

func conflict(account *core.ServiceAccount, why string) error {
	return apierrors.NewConflict(schema.GroupResource{Group: tokenRequestKind.Group, Resource: tokenRequestKind.Kind}, account.Name, errors.New(why))
}

// complete fills in fields that the client left out. uid is the UID of the present account.
func (i *issue) complete(ctx context.Context, name string, req *authentication.TokenRequest) (uid types.UID, err error) {
	if err := i.matches(req, name); err != nil {
		return "", err
	}
	account, err := i.account(ctx, name)
	if err != nil {
		return "", err
	}
	if req.UID != "" && req.UID != account.UID {
		why := differ(req.UID, account)
		if utilfeature.DefaultFeatureGate.Enabled(genericfeatures.TokenRequestServiceAccountUIDValidation) {
			return "", conflict(account, why)
		}
		audit.AddAuditAnnotation(ctx, "authentication.k8s.io/token-request-uid-mismatch", why)
		warning.AddWarning(ctx, "", why+" but TokenRequestServiceAccountUIDValidation is not enabled. In the future, this will return a conflict error")
	}
	if err := fewAudiences(req.Spec.Audiences); err != nil {
		return "", err
	}
	if len(req.Spec.Audiences) == 0 {
		req.Spec.Audiences = i.audiences
	}
	req.Name, req.Namespace = account.Name, account.Namespace
	if req.UID == "" {
		req.UID = account.UID
	}
	req.CreationTimestamp = metav1.NewTime(time.Now())
	req.Status = authentication.TokenRequestStatus{}
	if errs := validation.ValidateTokenRequest(req); len(errs) != 0 {
		return "", apierrors.NewInvalid(tokenRequestKind.GroupKind(), "", errs)
	}
	return account.UID, nil
}

// bind finds the object that the token is to be bound to.
func (i *issue) bind(ctx context.Context, account *core.ServiceAccount, req *authentication.TokenRequest) (b bound, err error) {
	var uid types.UID
	ref := req.Spec.BoundObjectRef
	gvk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	switch {
	case gvk.Group == "" && gvk.Kind == "Pod":
		if b.pod, err = refer[*core.Pod](ctx, i.op, i.pods, i.namespace, ref.Name); err != nil {
			return b, err
		}
		if account.Name != b.pod.Spec.ServiceAccountName {
			return b, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", account.Name))
		}
		uid = b.pod.UID
		if b.node, err = i.nodeOf(ctx, b.pod); err != nil {
			return b, err
		}
	case gvk.Group == "" && gvk.Kind == "Node":
		if !utilfeature.DefaultFeatureGate.Enabled(features.ServiceAccountTokenNodeBinding) {
			return b, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to a Node object as the %q feature-gate is disabled", features.ServiceAccountTokenNodeBinding))
		}
		if b.node, err = refer[*core.Node](ctx, i.op, i.nodes, "", ref.Name); err != nil {
			return b, err
		}
		uid = b.node.UID
	case gvk.Group == "" && gvk.Kind == "Secret":
		if b.secret, err = refer[*core.Secret](ctx, i.op, i.secrets, i.namespace, ref.Name); err != nil {
			return b, err
		}
		uid = b.secret.UID
	case gvk.GroupVersion() == admissionregistrationv1.SchemeGroupVersion && (gvk.Kind == "ValidatingWebhookConfiguration" || gvk.Kind == "MutatingWebhookConfiguration"):
		if b, uid, err = i.bindWebhook(ctx, gvk, account, req); err != nil {
			return b, err
		}
	default:
		return b, apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", gvk))
	}
	if ref.UID != "" && uid != ref.UID {
		return b, apierrors.NewConflict(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, ref.Name,
			fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	return b, nil
}

// refer finds the object of a reference, which may not exist.
func refer[P runtime.Object](ctx context.Context, o *resources.Operation, t *resources.Type, namespace, name string) (P, error) {
	var none P
	if name == "" {
		return none, apierrors.NewBadRequest("Name parameter required.")
	}
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return none, apierrors.NewBadRequest(fmt.Sprintf("Name parameter invalid: %q: %s", name, strings.Join(wrong, ";")))
	}
	return find[P](ctx, o, t, t.KeyOf(namespace, name))
}

// nodeOf is the node that a token of a Pod names: of a missing node it has the name only.
func (i *issue) nodeOf(ctx context.Context, pod *core.Pod) (*core.Node, error) {
	if pod.Spec.NodeName == "" || !utilfeature.DefaultFeatureGate.Enabled(features.ServiceAccountTokenPodNodeInfo) {
		return nil, nil
	}
	node, err := find[*core.Node](ctx, i.op, i.nodes, i.nodes.KeyOf("", pod.Spec.NodeName))
	switch {
	case apierrors.IsNotFound(err):
		return &core.Node{ObjectMeta: metav1.ObjectMeta{Name: pod.Spec.NodeName}}, nil
	case err != nil:
		return nil, apierrors.NewInternalError(err)
	}
	return node, nil
}

// life is the lifetime of the token in seconds, and the number of seconds after which a use of it is counted, and noted in the audit, as
// that of a stale token (0: never). A Pod's token that admission has requested lives longer than it says, for clients that do not read it
// again.
func (i *issue) life(req *authentication.TokenRequest, b bound) (seconds, warnAfter int64) {
	seconds = req.Spec.ExpirationSeconds
	ours := !slices.ContainsFunc(req.Spec.Audiences, func(a string) bool { return !slices.Contains(i.audiences, a) })
	if i.ExtendExpiration && b.pod != nil && seconds == token.WarnOnlyBoundTokenExpirationSeconds && ours {
		return token.ExpirationExtensionSeconds, seconds
	}
	return seconds, 0
}
