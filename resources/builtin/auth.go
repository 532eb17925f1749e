package builtin

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/registry/authentication/selfsubjectreview"
	"k8s.io/kubernetes/pkg/registry/authentication/tokenreview"
	"k8s.io/kubernetes/pkg/registry/authorization/localsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectaccessreview"
	"k8s.io/kubernetes/pkg/registry/authorization/selfsubjectrulesreview"
	"k8s.io/kubernetes/pkg/registry/authorization/subjectaccessreview"

	"github.com/rowlock/rowlock/resources"
)

func authenticationGroup(p Parts) resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "authentication.k8s.io", Version: "v1"}
	return single(v1,
		virtual[authentication.SelfSubjectReview](v1, "selfsubjectreviews", false, answeredBy(selfsubjectreview.NewREST())),
		virtual[authentication.TokenReview](v1, "tokenreviews", false, reviewToken(answeredBy(tokenreview.NewREST(p.Authenticator, p.Audiences)))),
	)
}

func authorizationGroup(p Parts) resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "authorization.k8s.io", Version: "v1"}
	return single(v1,
		virtual[authorization.LocalSubjectAccessReview](v1, "localsubjectaccessreviews", true,
			answeredBy(localsubjectaccessreview.NewREST(p.Authorizer, Scheme))),
		virtual[authorization.SelfSubjectAccessReview](v1, "selfsubjectaccessreviews", false,
			answeredBy(selfsubjectaccessreview.NewREST(p.Authorizer, Scheme))),
		virtual[authorization.SelfSubjectRulesReview](v1, "selfsubjectrulesreviews", false,
			answeredBy(selfsubjectrulesreview.NewREST(p.Authorizer))),
		virtual[authorization.SubjectAccessReview](v1, "subjectaccessreviews", false,
			answeredBy(subjectaccessreview.NewREST(p.Authorizer, Scheme))),
	)
}

// mostAudiences bounds the audiences of a review or of a requested token. Upstream compares each with each: a review of 3 MB takes minutes.
const mostAudiences = 1000

func fewAudiences(audiences []string) error {
	if len(audiences) > mostAudiences {
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit of audiences is %d", mostAudiences))
	}
	return nil
}

// reviewToken reviews a token for a bounded number of audiences.
func reviewToken(review resources.CreateFunc) resources.CreateFunc {
	return func(ctx context.Context, o *resources.Operation, name string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
		if r, ok := obj.(*authentication.TokenReview); ok {
			if err := fewAudiences(r.Spec.Audiences); err != nil {
				return nil, err
			}
		}
		return review(ctx, o, name, obj, opts)
	}
}

// answeredBy makes a CreateFunc from one of upstream's reviews, which need no storage.
func answeredBy(c rest.Creater) resources.CreateFunc {
	return func(ctx context.Context, o *resources.Operation, _ string, obj runtime.Object, opts *metav1.CreateOptions) (runtime.Object, error) {
		return c.Create(ctx, obj, o.Validate, opts)
	}
}
