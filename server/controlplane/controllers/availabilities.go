package controllers

import (
	"context"
	"sync"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/follow"
)

const apiServicesResource = "apiservices.apiregistration.k8s.io"

// checkInterval is how often a server is probed when no event concerns it, and the longest pause after failures. Both values are
// upstream's.
const checkInterval = 30 * time.Second

// availability maintains the status of the APIServices that have a Service, with a goroutine for each. It is a follow.Handler.
// One of the servers that share a database probes, from its own network; all servers use its results.
type availability struct {
	Config
	ctx  context.Context
	work sync.WaitGroup
	// checks holds the checks by the name of the APIService, services the Service of each. Only the follower's goroutine uses them.
	checks   map[string]*check
	services map[string]types.NamespacedName
}

func newAvailability(c Config) *availability {
	return &availability{Config: c, checks: map[string]*check{}, services: map[string]types.NamespacedName{}}
}

// run follows until ctx ends or the store is closed.
func (a *availability) run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	a.ctx = ctx
	follow.Run(ctx, follow.Source{Store: a.Store, Logger: a.Logger, Name: "the availability of APIServices", Existing: true,
		Objects: []resources.Key{{Resource: apiServicesResource}, {Resource: behind.ServicesResource}, {Resource: behind.SlicesResource}}}, a)
	stop()
	a.work.Wait()
}

// Begin implements follow.Handler.
func (a *availability) Begin() {
	for name := range a.checks {
		a.end(name)
	}
}

// Turn implements follow.Handler.
func (a *availability) Turn(context.Context, follow.Turn) (time.Duration, error) { return 0, nil }

// Observe implements follow.Handler.
func (a *availability) Observe(events []*resources.Event) {
	for _, e := range events {
		switch o := e.Object; o.Resource {
		case apiServicesResource:
			a.observe(e)
		case behind.ServicesResource:
			a.changed(types.NamespacedName{Namespace: o.Namespace, Name: o.Name})
		default:
			a.changed(types.NamespacedName{Namespace: o.Namespace, Name: o.Labels[discoveryv1.LabelServiceName]})
			if e.Prev != nil {
				a.changed(types.NamespacedName{Namespace: o.Namespace, Name: e.Prev.Labels[discoveryv1.LabelServiceName]})
			}
		}
	}
}

func (a *availability) observe(e *resources.Event) {
	name := e.Object.Name
	t, ok := a.Registry.Catalog().Type(apiServicesResource)
	if e.Op == resources.Delete || !ok {
		a.end(name)
		return
	}
	obj, err := t.DecodeStored(e.Object)
	if err != nil {
		a.Logger.Error("an APIService cannot be read", "name", name, "error", err)
		return
	}
	is := obj.(*apiregistrationv1.APIService)
	if is.Spec.Service == nil {
		a.end(name)
		return
	}
	a.services[name] = types.NamespacedName{Namespace: is.Spec.Service.Namespace, Name: is.Spec.Service.Name}
	c, known := a.checks[name]
	if !known {
		c = &check{wake: make(chan struct{}, 1)}
		a.checks[name] = c
		var ctx context.Context
		ctx, c.stop = context.WithCancel(a.ctx)
		a.work.Go(func() { a.keep(ctx, name, c) })
	}
	if c.concerns(is) && known {
		c.now()
	}
}

// changed triggers the checks of the APIServices that refer to a Service.
func (a *availability) changed(service types.NamespacedName) {
	for name, of := range a.services {
		if of == service {
			a.checks[name].now()
		}
	}
}

func (a *availability) end(name string) {
	if c, ok := a.checks[name]; ok {
		c.stop()
		delete(a.checks, name)
		delete(a.services, name)
	}
}

// keep checks one APIService repeatedly until ctx ends.
func (a *availability) keep(ctx context.Context, name string, c *check) {
	failures := 0
	for {
		wait := checkInterval
		if a.look(ctx, name, c) {
			failures = 0
		} else {
			wait = pauseAfter(failures)
			failures++
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-c.wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}
