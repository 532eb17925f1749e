package authz_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// slow is a store whose reads wait until they are released.
type slow struct {
	resources.Store
	asked, let chan struct{}
	read       atomic.Int32
}

func (s *slow) Snapshot(ctx context.Context, resource string, at resources.At) (resources.Snapshot, error) {
	if s.read.Add(1) == 1 {
		close(s.asked)
	}
	select {
	case <-s.let:
		return s.Store.Snapshot(ctx, resource, at)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func newSlow(t *testing.T) (*slow, authorizer.AttributesRecord) {
	f := newFixture(t)
	f.commit(f.write(clusterRoles, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: []rbacv1.PolicyRule{rule([]string{"get"}, []string{""}, []string{"pods"})}}),
		f.write(clusterRoleBindings, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "r"},
			Subjects: []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: "ann"}}}))
	return &slow{Store: f.store, asked: make(chan struct{}), let: make(chan struct{})}, ask(&user.DefaultInfo{Name: "ann"}, "get", "a", "pods", "p")
}

// A request waits for the index no longer than it lasts, and its end does not affect other requests.
func TestSlowStoreHoldsNobody(t *testing.T) {
	store, q := newSlow(t)
	a := authz.NewRBAC(store)
	ctx, cancel := context.WithCancel(t.Context())
	first, second := make(chan error, 1), make(chan authorizer.Decision, 1)
	go func() {
		_, _, err := a.Authorize(ctx, q)
		first <- err
	}()
	<-store.asked
	go func() {
		decision, _, _ := a.Authorize(t.Context(), q)
		second <- decision
	}()
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("the request that ended: %v", err)
	}
	close(store.let)
	if decision := <-second; decision != authorizer.DecisionAllow {
		t.Errorf("the other one: %v", decision)
	}
	if n := store.read.Load(); n != 4 {
		t.Errorf("%d types were read for both", n)
	}
}

// Run ends although the store does not answer.
func TestRunEndsWhileStoreIsSlow(t *testing.T) {
	store, q := newSlow(t)
	a := authz.NewRBAC(store)
	failed := make(chan error, 1)
	go func() {
		_, _, err := a.Authorize(t.Context(), q)
		failed <- err
	}()
	<-store.asked
	ctx, stop := context.WithCancel(t.Context())
	stop()
	a.Run(ctx, servertest.Quiet)
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Errorf("who waited was told %v", err)
	}
	close(store.let)
	if !allowed(t, a, q) {
		t.Error("who asks afterwards is not allowed")
	}
}
