package authz

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	authorizationcel "k8s.io/apiserver/pkg/authorization/cel"
	"k8s.io/apiserver/pkg/authorization/metrics"
	"k8s.io/apiserver/pkg/authorization/union"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/authorizer/webhook"
	webhookmetrics "k8s.io/apiserver/plugin/pkg/authorizer/webhook/metrics"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/resources/bounded"
)

const (
	// privileged is kube-apiserver's name for the authorizer that allows system:masters everything.
	privileged = "kubernetes.io/system-privileged-group"
	// webhookName is kube-apiserver's name for the webhook that flags configure.
	webhookName = "default"
)

// webhookBackoff is kube-apiserver's.
var webhookBackoff = wait.Backoff{Duration: 500 * time.Millisecond, Factor: 1.5, Jitter: 0.2, Steps: 5}

// chain creates the authorizers of a configuration. They count their decisions.
func (a *Authorizers) chain(c *apiserver.AuthorizationConfiguration) (*present, error) {
	if len(c.Authorizers) == 0 {
		return nil, errNone
	}
	named := []union.NamedAuthorizer{{AuthorizerName: privileged, Authorizer: authorizerfactory.NewPrivilegedGroups(user.SystemPrivilegedGroup)}}
	var resolvers []authorizer.RuleResolver
	for _, is := range c.Authorizers {
		one, err := a.authorizer(is)
		if err != nil {
			return nil, err
		}
		named = append(named, union.NamedAuthorizer{AuthorizerName: is.Name, Authorizer: metrics.InstrumentedAuthorizer(string(is.Type), is.Name, one)})
		resolvers = append(resolvers, one)
	}
	all, err := union.New(named...)
	if err != nil {
		return nil, fmt.Errorf("authorizers: %w", err)
	}
	return &present{all, union.NewRuleResolvers(resolvers...)}, nil
}

// resolving is an authorizer that can also list what a user may do.
type resolving interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

func (a *Authorizers) authorizer(is apiserver.AuthorizerConfiguration) (resolving, error) {
	switch string(is.Type) {
	case modes.ModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case modes.ModeAlwaysDeny:
		return authorizerfactory.NewAlwaysDenyAuthorizer(), nil
	case modes.ModeWebhook:
		return a.webhook(is.Name, is.Webhook)
	}
	if !a.kinds.Has(is.Type) {
		return nil, fmt.Errorf("authorizer type %s is not allowed if it was not enabled at initial server startup", is.Type)
	}
	switch string(is.Type) {
	case modes.ModeNode:
		return a.node, nil
	case modes.ModeRBAC:
		return a.rbac, nil
	case modes.ModeABAC:
		return a.abac, nil
	}
	return nil, fmt.Errorf("unknown authorization mode %s specified", is.Type)
}

// webhookCounters are kube-apiserver's metrics of webhooks.
type webhookCounters struct {
	webhookmetrics.NoopRequestMetrics
	webhookmetrics.WebhookMetrics
	authorizationcel.MatcherMetrics
}

func (a *Authorizers) webhook(name string, w *apiserver.WebhookConfiguration) (resolving, error) {
	connection, err := bounded.Config(webhookutil.LoadKubeconfig(*w.ConnectionInfo.KubeConfigFile, nil))
	if err != nil {
		return nil, fmt.Errorf("authorizer %s: %w", name, err)
	}
	if w.Timeout.Duration != 0 {
		connection.Timeout = w.Timeout.Duration
	}
	onError := authorizer.DecisionDeny
	if w.FailurePolicy == apiserver.FailurePolicyNoOpinion {
		onError = authorizer.DecisionNoOpinion
	}
	authorized, unauthorized := w.AuthorizedTTL.Duration, w.UnauthorizedTTL.Duration
	if !w.CacheAuthorizedRequests {
		authorized = 0
	}
	if !w.CacheUnauthorizedRequests {
		unauthorized = 0
	}
	counters := webhookCounters{WebhookMetrics: webhookmetrics.NewWebhookMetrics(), MatcherMetrics: authorizationcel.NewMatcherMetrics()}
	one, err := webhook.New(connection, w.SubjectAccessReviewVersion, authorized, unauthorized, webhookBackoff, onError, w.MatchConditions, name, counters,
		a.reader.expressions())
	if err != nil {
		return nil, fmt.Errorf("authorizer %s: %w", name, err)
	}
	return one, nil
}
