package controllers

import (
	"context"

	rbacv1 "k8s.io/client-go/informers/rbac/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/clusterroleaggregation"

	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// newAggregation returns the controller that maintains the rules of aggregated ClusterRoles (aggregationRule): admin,
// edit and view, for example.
func newAggregation(c Config) controller {
	o := hosted.Options{Name: ClusterRoleAggregation, Always: true, Follows: []hosted.Followed{{Resource: "clusterroles.rbac.authorization.k8s.io"}}}
	return newHost(c, o, "clusterrole-aggregation-controller", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		a := clusterroleaggregation.NewClusterRoleAggregation(rbacv1.New(informers, "", nil).ClusterRoles(), client.RbacV1())
		informers.CalmQueue(a, "ClusterRoleAggregator")
		a.Run(ctx, 1)
		return nil
	})
}
