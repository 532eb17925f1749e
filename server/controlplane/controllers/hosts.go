package controllers

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// host is a controller from kube-controller-manager's packages. It is shown only the types that it follows.
type host struct{ *hosted.Controller }

// linger is how long a controller keeps running when it has nothing to do.
const linger = 10 * time.Second

// newHost returns a controller that run creates and runs, with informers and with a client for its service account; see hosted.Options.
func newHost(c Config, o hosted.Options, account string, run func(context.Context, *hosted.Informers, kubernetes.Interface) error) controller {
	return newHostAs(c, o, resources.Controller(account), run)
}

// newHostAs returns a controller whose client sends its requests as who.
func newHostAs(c Config, o hosted.Options, who resources.Actor, run func(context.Context, *hosted.Informers, kubernetes.Interface) error) controller {
	o.Store, o.Logger, o.Linger = c.Store, c.Logger, linger
	o.Run = func(ctx context.Context, informers *hosted.Informers) error {
		if c.Client == nil {
			return errors.New("there are no clients for controllers")
		}
		client, err := c.Client(who)
		if err != nil {
			return err
		}
		return run(ctx, informers, client)
	}
	return host{hosted.New(o)}
}

func (h host) forget()                    { h.Forget() }
func (h host) observe(e *resources.Event) { h.Observe(e) }
func (h host) typesChanged()              {} // these controllers do not clean up after a type that is no longer served

// turn implements roundObserver. Before the first round after forget, the feed has opened all types that can be read.
func (h host) turn(t follow.Turn) {
	if !slices.ContainsFunc(h.Resources(), func(r string) bool { return slices.Contains(t.Unread, r) }) {
		h.Opened()
	}
}

func (h host) shown(string)                  {}
func (h host) left(string, schema.GroupKind) {}
func (h host) follows() []string             { return h.Resources() }
func (h host) work(ctx context.Context)      { h.Work(ctx) }
