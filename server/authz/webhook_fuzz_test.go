package authz_test

import (
	"strings"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// FuzzAccessReviews sends any SubjectAccessReview as the answer about a request: without an answer that allows it, the request is not allowed, and a
// webhook with the failure policy Deny denies what it cannot read.
func FuzzAccessReviews(f *testing.F) {
	for _, seed := range []string{allows, denies, shrugs, `{"allowed":true,"denied":true}`, `null`, `[]`, `{"allowed":"true"}`, `{"conditionsChain":[{}]}`} {
		f.Add(seed)
	}
	var status string
	hook := newHook(f, func(authorizationv1.SubjectAccessReviewSpec) string { return status })
	a, err := authz.New(authz.Options{Logger: servertest.Quiet, File: configured(f, "v1", hook.entry("hook", "Deny"))})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		status = answer
		decision, _, err := a.Authorize(t.Context(), ann("a"))
		if decision == authorizer.DecisionAllow && (err != nil || !strings.Contains(answer, "true")) {
			t.Errorf("%s: allowed, %v", answer, err)
		}
		if err != nil && decision != authorizer.DecisionDeny {
			t.Errorf("%s: %v, %v", answer, decision, err)
		}
	})
}
