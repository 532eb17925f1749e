package builtin

import (
	"time"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"

	"github.com/rowlock/rowlock/resources"
)

// Parts are the parts of a server that the rules of some types ask. Every one may be left out.
type Parts struct {
	// Reader finds the namespace of a ResourceClaim that asks for admin access, which is refused without a Reader.
	Reader resources.Reader
	// Authenticator answers TokenReviews. Without one no token is authentic.
	Authenticator authenticator.Request
	// Audiences are those a token is for when its review names none.
	Audiences []string
	// Tokens makes those of ServiceAccounts. Without, there are none.
	Tokens *Tokens
	// Authorizer answers the access reviews. Without one everything is allowed.
	Authorizer Authorizer
	// Rules are what users may do by RBAC. Who writes a role or binding may give no more than that. Without, everybody may give everything.
	Rules validation.AuthorizationRuleResolver
	// Registry knows the resources of kinds that policies have for parameters. Who names some has to have the right to read everything of
	// a group for a kind that it does not know.
	Registry *resources.Registry
	// Services says where the addresses and ports of Services come from.
	Services ServiceNetwork
	// Kubelets says how the kubelets of nodes are connected to. Without, it is done without a certificate.
	Kubelets *Kubelets
	// EventTTL is how long an Event is kept after its last write; 0: an hour.
	EventTTL time.Duration
	// APIs says what is served that is not by default, or the other way round.
	APIs RuntimeConfig
}

// Authorizer decides, and lists, what a user may do.
type Authorizer interface {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
}

// Groups returns all built-in groups for a server in which every user may do everything.
func Groups() []resources.GroupSpec { return Parts{}.Groups() }

// Groups returns the built-in groups that are served, with the priorities at which kube-apiserver orders them in
// discovery (those of its own APIService objects). It asks kube-apiserver's feature gates.
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
