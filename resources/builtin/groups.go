package builtin

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/rowlock/rowlock/resources"
)

// Parts are the parts of a server that the rules of some types depend on. Each is optional.
type Parts struct {
	// Reader finds the namespace of a ResourceClaim that asks for admin access; without a Reader such a claim is refused.
	Reader resources.Reader
	// Authenticator answers TokenReviews. Without one no token is authentic.
	Authenticator authenticator.Request
	// Audiences are the audiences of a token whose review names none.
	Audiences []string
	// Tokens makes the tokens of ServiceAccounts. Nil: none are made.
	Tokens *Tokens
	// Authorizer answers the access reviews. Without one everything is allowed.
	Authorizer Authorizer
	// Rules are the users' rights by RBAC. A user may put only rights that they have into a role or binding. Nil: there is no limit.
	Rules validation.AuthorizationRuleResolver
	// Registry finds the resources of kinds that policies have as parameters. A user who names an unknown kind must have the right to read
	// everything in its group.
	Registry *resources.Registry
	// Services has the ranges of the addresses and ports of Services.
	Services ServiceNetwork
	// Kubelets has the transports to the kubelets of nodes. Nil: connections use no certificate.
	Kubelets *Kubelets
	// EventTTL is how long an Event is kept after its last write, in whole seconds; 0: for ever. Nil: an hour.
	EventTTL *time.Duration
	// APIs enables versions and resources that are off by default, and disables others.
	APIs RuntimeConfig
}

// Authorizer decides, and lists, the rights of a user.
type Authorizer interface {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
}

// Groups returns all built-in groups for a server in which every user may do everything.
func Groups() []resources.GroupSpec { return Parts{}.Groups() }

// Groups returns the built-in groups that are served, with the priorities at which kube-apiserver orders them in discovery (those of its
// own APIService objects). It reads kube-apiserver's feature gates.
func (p Parts) Groups() []resources.GroupSpec {
	return p.APIs.served(withEarlyVersions(p.stableGroups()))
}

func (p Parts) stableGroups() []resources.GroupSpec {
	if p.Authorizer == nil {
		p.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer()
	}
	if p.Kubelets == nil {
		p.Kubelets = defaultKubelets()
	}
	// These are in one group and used by another.
	budgets, namespaces, events, addresses, cidrs := podDisruptionBudgets(), namespaces(), events(p.EventTTL), ipAddresses(), serviceCIDRs()
	endpointSlices, validating, mutating := endpointSlices(), validatingWebhooks(), mutatingWebhooks()
	return []resources.GroupSpec{
		coreGroup(p, shared{namespaces, events, budgets, services(p.Services, addresses, cidrs), endpointSlices, validating, mutating}),
		admissionregistrationGroup(p, validating, mutating),
		apiextensionsGroup(),
		apiregistrationGroup(),
		appsGroup(),
		authenticationGroup(p),
		authorizationGroup(p),
		autoscalingGroup(),
		batchGroup(),
		certificatesGroup(p),
		coordinationGroup(),
		discoveryGroup(endpointSlices),
		eventsGroup(events),
		flowcontrolGroup(),
		networkingGroup(addresses, cidrs),
		nodeGroup(),
		policyGroup(budgets),
		rbacGroup(p),
		resourceGroup(p, namespaces),
		schedulingGroup(),
		storageGroup(),
		storagemigrationGroup(),
	}
}
