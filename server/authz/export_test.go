package authz

import "github.com/rowlock/rowlock/resources"

// NewDetachedRBAC returns an authorizer without a store, and a function that applies changes.
func NewDetachedRBAC() (r *RBAC, apply func(...*resources.Event) error) {
	r = NewRBAC(nil)
	r.feed.applied.Store(r.feed.woken.Load())
	return r, func(events ...*resources.Event) error { return r.policy.apply(events) }
}

// Look reads the file of the configuration, as when it changes.
func (a *Authorizers) Look() { a.look() }
