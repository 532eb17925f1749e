package resources

import (
	"context"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
)

// Actor is a part of the server that writes on its own behalf, as the user that its counterpart in a cluster has.
type Actor struct{ user.Info }

// APIServer is the user of the server's own requests: bootstrap, chores and repairs, as with kube-apiserver's loopback
// client. Each process has a UID of its own.
var APIServer = Actor{&user.DefaultInfo{Name: user.APIServerUser, UID: uuid.NewString(),
	Groups: []string{user.AllAuthenticated, user.SystemPrivilegedGroup}}}

// Controller is the actor of a controller: the service account in kube-system under which kube-controller-manager runs
// it.
func Controller(account string) Actor {
	who := serviceaccount.UserInfo(metav1.NamespaceSystem, account, "").(*user.DefaultInfo)
	who.Groups = append(who.Groups, user.AllAuthenticated)
	return Actor{who}
}

// Request is the context of a request of the actor for an object, or for a subresource of it. verb is a verb of
// RequestInfo.
func (a Actor) Request(ctx context.Context, verb string, t *Type, key Key, subresource ...string) context.Context {
	ctx = genericapirequest.WithUser(unsent(ctx), a.Info)
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: verb, APIGroup: t.Group, APIVersion: t.StorageVersion.Version,
		Resource: t.Resource, Namespace: key.Namespace, Name: key.Name}
	if len(subresource) > 0 {
		info.Subresource = subresource[0]
	}
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(ctx, key.Namespace), info)
}
