package controllers

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/resources"
)

// Config is what the controllers work on.
type Config struct {
	Registry *resources.Registry
	// Store is read and followed.
	Store resources.View
	// Pipeline is how the controllers write, each as the service account that it has with kube-controller-manager.
	Pipeline *resources.Pipeline
	Logger   *slog.Logger
	// Enabled are the names of those that run; see Select.
	Enabled []string
	// Prober, when set, is asked for the status of APIServices that have a Service, whatever is Enabled.
	Prober Prober
	// Unavailable, when set, is told when an APIService is marked as unavailable that was available, and why.
	Unavailable func(name, reason string)
	// Elsewhere, when set, has objects in namespaces that other servers keep.
	Elsewhere Elsewhere
	// Client returns a client of the server that sends requests as a user, for controllers from kube-controller-manager's packages.
	Client func(who resources.Actor) (kubernetes.Interface, error)
	// Trust is what is published of the server's authorities. Nil: nothing.
	Trust *Trust
	// ServiceAccounts is for the controllers of these.
	ServiceAccounts ServiceAccounts
	// Signing says how CertificateSigningRequests are signed. Nil: they are not.
	Signing *Signing
	// Elect, when set, calls lead while this process is the one of several servers on the same database whose
	// controllers are to work, with a context that ends when it no longer is. It returns when its own context ends.
	// Nil: there is only one server.
	Elect func(ctx context.Context, lead func(context.Context)) error
}

// controller is one of them: an observer of changes, and the work that these lead to.
type controller interface {
	observer
	// work does what is in the queues until ctx ends, and returns when it has stopped.
	work(ctx context.Context)
}

// Run runs the controllers until ctx ends, and returns when they have stopped.
func Run(ctx context.Context, c Config) error {
	switch {
	case len(c.Enabled) > 0:
		return elect(ctx, c)
	case c.Prober != nil:
		return whileRemote(ctx, c, func(ctx context.Context) error { return elect(ctx, c) })
	}
	return nil
}

// elect runs the controllers while this server is the one whose controllers are to work, until ctx ends.
func elect(ctx context.Context, c Config) error {
	if c.Elect == nil {
		lead(ctx, c)
		return nil
	}
	if err := c.Elect(ctx, func(ctx context.Context) { lead(ctx, c) }); err != nil {
		return fmt.Errorf("elect the server whose controllers work: %w", err)
	}
	return nil
}

// lead runs the controllers from the present state on.
func lead(ctx context.Context, c Config) {
	var all []controller
	for _, k := range kinds {
		if !slices.Contains(c.Enabled, k.name) {
			continue
		}
		if one := k.make(c); one != nil {
			all = append(all, one)
		}
	}
	f := &feed{}
	var work errgroup.Group
	for _, one := range all {
		f.add(one)
		work.Go(func() error {
			one.work(ctx)
			return nil
		})
	}
	if c.Prober != nil {
		work.Go(func() error {
			newAvailability(c).run(ctx)
			return nil
		})
	}
	if len(all) > 0 {
		f.run(ctx, c)
	}
	_ = work.Wait() // the work has no errors
}
