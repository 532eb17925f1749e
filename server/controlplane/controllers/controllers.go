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

// Config is what the controllers need.
type Config struct {
	Registry *resources.Registry
	// Store is read and followed.
	Store resources.View
	// Pipeline takes the writes of the controllers, each as the service account that it has in kube-controller-manager.
	Pipeline *resources.Pipeline
	Logger   *slog.Logger
	// Enabled are the names of the controllers to run; see Select.
	Enabled []string
	// Prober, when set, is used to maintain the status of APIServices that have a Service, whatever is Enabled.
	Prober Prober
	// Unavailable, when set, is called when an available APIService is marked as unavailable, with the reason.
	Unavailable func(name, reason string)
	// Elsewhere, when set, gives access to namespaced objects of other servers.
	Elsewhere Elsewhere
	// Client returns a client of the server that sends requests as a user, for controllers from kube-controller-manager's packages.
	Client func(who resources.Actor) (kubernetes.Interface, error)
	// Trust holds the authorities to publish. Nil: none are published.
	Trust *Trust
	// ServiceAccounts configures the controllers of ServiceAccounts.
	ServiceAccounts ServiceAccounts
	// Signing says how CertificateSigningRequests are signed. Nil: they are not.
	Signing *Signing
	// Elect, when set, calls lead while this server is the leader among the servers that share the database, with a
	// context that ends when it no longer is. It returns when its own context ends. Nil: there is only one server.
	Elect func(ctx context.Context, lead func(context.Context)) error
}

// controller is an observer of changes, with the work that they trigger.
type controller interface {
	observer
	// work handles the queues until ctx ends, and returns when it has stopped.
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

// elect runs the controllers while this server is the leader, until ctx ends.
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

// lead runs the controllers, starting from the present state.
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
