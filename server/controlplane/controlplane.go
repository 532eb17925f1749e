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

// Config is what a Plane works on.
type Config struct {
	Registry *resources.Registry
	// Store is read and followed; what is written goes through Pipeline.
	Store    resources.View
	Pipeline *resources.Pipeline
	Logger   *slog.Logger
	// Definitions are the types that are defined by objects. Nil: there are none.
	Definitions Definitions
	// ClientAuthorities are published to servers that extend the API. Nil: none are.
	ClientAuthorities ClientAuthorities
	// FrontProxy is published with them: how servers that extend the API know this one. Nil: it is not.
	FrontProxy *FrontProxy
	// NoRBAC: nobody decides by roles and bindings. The bootstrap policy is not made then, as by kube-apiserver.
	NoRBAC bool
	// Front is told what concerns those who answer requests.
	Front Front
}

// Front is the side of the server that answers requests, as far as it has to know of the rest.
type Front interface {
	// UseFlows puts FlowSchemas and priority levels into force.
	UseFlows(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration)
	// Finish notes that a part of the start is over, by the name that kube-apiserver has for the same ("post-start hook").
	Finish(names ...string)
}

// ClientAuthorities are the authorities whose client certificates are accepted, and what tells that they are others.
type ClientAuthorities interface {
	// Certificates returns them.
	Certificates() []*x509.Certificate
	// Changed returns a channel that is closed when Certificates would return others.
	Changed() <-chan struct{}
}

// FrontProxy is who says, to servers that extend the API, on whose behalf a request is sent.
type FrontProxy struct {
	// Names are the common names of its certificates; none: any.
	Names []string
	// Authorities returns those that sign them. ClientAuthorities.Changed tells of others, too.
	Authorities func() []*x509.Certificate
	// The headers that say who sends a request; ExtraPrefixes begin the names of those with more about it.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// Plane makes the objects that are there from the start, and keeps them right.
type Plane struct {
	Config

	// refused: a webhook or a policy keeps objects from being made that exist from the start.
	refused atomic.Bool
}

// New returns the control plane of one server.
func New(c Config) *Plane { return &Plane{Config: c} }

// Keep does what a server does by itself to the objects that belong to it, until ctx ends or the store is closed. It
// comes after Bootstrap and BootstrapServices. Several servers may do so at once: all of it is conditional, and all of
// them want the same.
func (p *Plane) Keep(ctx context.Context, n Network) {
	var work errgroup.Group
	for _, c := range append(p.chores(), p.keepServices(n), p.keepIdentity(n)) {
		if c == nil {
			continue // there is nothing to keep
		}
		work.Go(func() error {
			p.keep(ctx, c)
			return nil
		})
	}
	for _, u := range p.upkeeps() {
		work.Go(func() error {
			p.keepServed(ctx, u)
			return nil
		})
	}
	_ = work.Wait() // the chores have no errors
}
