package controlplane

import (
	"context"
	"crypto/x509"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"github.com/rowlock/rowlock/resources"
)

// Config is what a Plane needs.
type Config struct {
	Registry *resources.Registry
	// Store is read and followed; writes go through Pipeline.
	Store    resources.View
	Pipeline *resources.Pipeline
	Logger   *slog.Logger
	// Definitions are the types that CustomResourceDefinitions define. Nil: there are none.
	Definitions Definitions
	// ClientAuthorities are published to extension API servers. Nil: none are published.
	ClientAuthorities ClientAuthorities
	// FrontProxy is published with them: extension API servers recognise this server by it. Nil: it is not published.
	FrontProxy *FrontProxy
	// NoRBAC says that RBAC authorizes no requests. The bootstrap policy is not created then, as in kube-apiserver.
	NoRBAC bool
	// Front is the part of the server that handles requests.
	Front Front
}

// Front is the part of the server that handles requests, as far as the control plane calls it.
type Front interface {
	// UseFlows puts FlowSchemas and priority levels into force.
	UseFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration)
	// Finish notes that parts of the start are done, by kube-apiserver's names for them ("post-start hooks").
	Finish(names ...string)
}

// ClientAuthorities are the certificate authorities whose client certificates the server accepts.
type ClientAuthorities interface {
	// Certificates returns the authorities.
	Certificates() []*x509.Certificate
	// Changed returns a channel that is closed when Certificates would return others.
	Changed() <-chan struct{}
}

// FrontProxy says how extension API servers recognise this server when it sends a request on behalf of a user.
type FrontProxy struct {
	// Names are the accepted common names of its certificate; none: any name.
	Names []string
	// Authorities returns the authorities that sign its certificate. ClientAuthorities.Changed reports changes of these, too.
	Authorities func() []*x509.Certificate
	// These headers name the user of a request. ExtraPrefixes are the prefixes of headers with extra information about the user.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// Plane creates the objects that exist from the start, and keeps them right.
type Plane struct {
	Config

	// refused says that a webhook or a policy refused an object that has to exist from the start.
	refused atomic.Bool
	// reporters are those of the repairs and of the default ServiceCIDR, by name. What a repair finds at the start and again in Keep is one Event.
	reporters map[string]*reporter
}

// New returns the control plane of one server.
func New(c Config) *Plane {
	p := &Plane{Config: c, reporters: map[string]*reporter{}}
	for _, name := range []string{repairer, portRepairer, rangeManager} {
		p.reporters[name] = p.newReporter(name)
	}
	p.reporters[rangeManager].older = true
	return p
}

// Keep does the work that a server does unasked on the objects that belong to it, until ctx ends or the store is
// closed. It runs after Bootstrap and BootstrapServices. Several servers may run it at once: all writes are
// conditional, and all servers want the same result.
func (p *Plane) Keep(ctx context.Context, n Network) {
	var work errgroup.Group
	for _, c := range append(p.chores(), p.keepServices(n), p.keepIdentity(n)) {
		if c == nil {
			continue // there is nothing to keep on this server
		}
		work.Go(func() error {
			p.keep(ctx, c)
			return nil
		})
	}
	for _, u := range p.upkeeps(n) {
		work.Go(func() error {
			p.keepServed(ctx, u)
			return nil
		})
	}
	_ = work.Wait() // the chores have no errors
}
