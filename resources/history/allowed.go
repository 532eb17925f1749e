package history

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
)

// all stands for every resource, group or version in a question to an authorizer: only a rule with "*" allows it.
const all = "*"

// mayList asks whether the user may read all objects whose history a list shows. The history of one object requires get on it; that of a
// resource, or of all, also names objects, and requires list and get on them. Errors: a Forbidden status, which names the missing right.
func (f *finder) mayList(ctx context.Context, namespace, resource, name string) error {
	a := authorizer.AttributesRecord{Namespace: namespace, APIGroup: all, APIVersion: all, Resource: all}
	verbs, of, why := []string{"list", "get"}, "all resources", ", as the field selector has no "+fieldResource
	if resource != "" {
		gr := schema.ParseGroupResource(resource)
		a.APIGroup, a.Resource, of, why = gr.Group, gr.Resource, resource, ""
		if name != "" {
			a.Name, verbs, of = name, []string{"get"}, resource+" "+quoted(name)
		}
	}
	if namespace != "" {
		of += " in the namespace " + quoted(namespace)
	}
	a.Namespace = namespaceOf(a.Namespace, resource, name)
	for _, a.Verb = range verbs {
		if err := f.may(ctx, a, "they have to be allowed to "+a.Verb+" "+of+why); err != nil {
			return err
		}
	}
	return nil
}

// mayGet asks whether the user may get the object of a revision.
func (f *finder) mayGet(ctx context.Context, key resources.Key) (bool, error) {
	gr := schema.ParseGroupResource(key.Resource)
	a := authorizer.AttributesRecord{Verb: "get", Namespace: namespaceOf(key.Namespace, key.Resource, key.Name), APIGroup: gr.Group, APIVersion: all, Resource: gr.Resource, Name: key.Name}
	err := f.may(ctx, a, "they have to be allowed to get the object that it is of")
	if apierrors.IsForbidden(err) {
		return false, nil
	}
	return err == nil, err
}

// namespaceOf is the namespace of a request for an object: a request for a namespace is in that namespace itself, so that a role in it
// may allow the request.
func namespaceOf(namespace, resource, name string) string {
	if resource == "namespaces" {
		return name
	}
	return namespace
}

func (f *finder) may(ctx context.Context, a authorizer.AttributesRecord, said string) error {
	user, ok := genericapirequest.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(errors.New("no user found in the context"))
	}
	a.User, a.ResourceRequest = user, true
	decision, _, err := f.Authorizer.Authorize(ctx, a)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		said += " (" + err.Error() + ")"
	}
	return apierrors.NewForbidden(f.t.GroupResource, "", errors.New("User "+quoted(user.GetName())+" cannot read this: "+said))
}
