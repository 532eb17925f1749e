package builtin_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/kubernetes/pkg/apis/authentication"
	"k8s.io/kubernetes/pkg/apis/authorization"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
)

func (c *cluster) review(group, resource, body string) runtime.Object {
	c.Helper()
	s := c.served(group, resource)
	obj, err := c.ask(s, body)
	if err != nil {
		c.Fatal(err)
	}
	return obj
}

func TestReviewsWithoutAuthorizer(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	const z, n = "authorization.k8s.io", "authentication.k8s.io"

	who := c.review(n, "selfsubjectreviews", `{}`).(*authentication.SelfSubjectReview).Status.UserInfo
	if who.Username != "jane" || !cmp.Equal(who.Groups, []string{"rowers"}) {
		t.Errorf("the user is %+v", who)
	}
	if token := c.review(n, "tokenreviews", `{"spec":{"token":"t"}}`).(*authentication.TokenReview); token.Status.Authenticated {
		t.Error("an unknown token is authentic")
	}
	if r := c.review(z, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`).(*authorization.SelfSubjectAccessReview); !r.Status.Allowed {
		t.Error("the user may not get pods")
	}
	if r := c.review(z, "subjectaccessreviews", `{"spec":{"user":"joe","resourceAttributes":{"verb":"get","resource":"pods"}}}`).(*authorization.SubjectAccessReview); !r.Status.Allowed {
		t.Error("another user may not get pods")
	}
	if r := c.review(z, "localsubjectaccessreviews", `{"metadata":{"namespace":"space"},"spec":{"user":"joe","resourceAttributes":{"namespace":"space","verb":"get","resource":"pods"}}}`).(*authorization.LocalSubjectAccessReview); !r.Status.Allowed {
		t.Error("another user may not get pods in a namespace")
	}
	rules := c.review(z, "selfsubjectrulesreviews", `{"spec":{"namespace":"space"}}`).(*authorization.SelfSubjectRulesReview).Status
	all := []authorization.ResourceRule{{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}}}
	if diff := cmp.Diff(all, rules.ResourceRules); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
}

type denier struct {
	authorizer.UnconditionalAuthorizer
	authorizer.RuleResolver
}

func TestReviewsAskTheAuthorizer(t *testing.T) {
	deny := authorizerfactory.NewAlwaysDenyAuthorizer()
	c := newCluster(t, builtin.Parts{Authorizer: denier{deny, deny}})
	r := c.review("authorization.k8s.io", "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`)
	if r.(*authorization.SelfSubjectAccessReview).Status.Allowed {
		t.Error("allowed what the authorizer denies")
	}
}

// unavailable is a store whose database cannot be reached.
type unavailable struct{ resources.Reader }

func (unavailable) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	return nil, resources.ErrUnavailable
}

func TestComponentStatus(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	s := c.served("", "componentstatuses")
	health := func(r resources.Reader) core.ConditionStatus {
		page, err := s.Computed(t.Context(), r, resources.ComputedQuery{})
		if err != nil || len(page.Objects) != 3 {
			t.Fatalf("components are %v, %v", page.Objects, err)
		}
		return page.Objects[2].(*core.ComponentStatus).Conditions[0].Status // the scheduler and the controller-manager come first
	}
	if got := health(c.store); got != core.ConditionTrue {
		t.Errorf("with an open store the condition is %s", got)
	}
	if got := health(unavailable{}); got != core.ConditionFalse {
		t.Errorf("without a database the condition is %s", got)
	}
}

// unasked is a store that must not be asked.
type unasked struct {
	resources.Reader
	t *testing.T
}

func (u unasked) Get(context.Context, resources.Key, resources.At) (*resources.Object, error) {
	u.t.Error("the store was asked")
	return nil, resources.ErrUnavailable
}

// A get checks the component of that name only.
func TestOneComponentStatus(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	s := c.served("", "componentstatuses")
	for name, want := range map[string]int{"scheduler": 1, "controller-manager": 1, "etcd-1": 0} {
		if page, err := s.Computed(t.Context(), unasked{t: t}, resources.ComputedQuery{Name: name}); err != nil || len(page.Objects) != want {
			t.Errorf("%s: %v, %v", name, page.Objects, err)
		}
	}
	page, err := s.Computed(t.Context(), c.store, resources.ComputedQuery{Name: "etcd-0"})
	if err != nil || len(page.Objects) != 1 || page.Objects[0].(*core.ComponentStatus).Conditions[0].Status != core.ConditionTrue {
		t.Errorf("etcd-0: %v, %v", page.Objects, err)
	}
}

// reviewed is a validating plugin that refuses everything.
type reviewed struct{}

func (reviewed) Handles(admission.Operation) bool { return true }

func (reviewed) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return admission.NewForbidden(a, errors.New("not reviewed"))
}

// TestInvalidReviewsAreNotAdmitted has the answers of kube-apiserver v1.37.1 to invalid reviews, which admission does not see. It refuses all others.
func TestInvalidReviewsAreNotAdmitted(t *testing.T) {
	c := newCluster(t, builtin.Parts{})
	c.pipeline.Use(reviewed{}, nil)
	const z, n = "authorization.k8s.io", "authentication.k8s.io"
	const one = `spec: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be specified`
	const who = one + `, spec.user: Invalid value: "": at least one of user or group must be specified`
	for _, review := range []struct {
		group, resource, body string
		want                  refusal
	}{
		{z, "subjectaccessreviews", `{}`, refusal{422, `.authorization.k8s.io "" is invalid: [` + who + `]`}},
		{z, "localsubjectaccessreviews", `{}`, refusal{422, `.authorization.k8s.io "" is invalid: [` + who + `]`}},
		{z, "selfsubjectaccessreviews", `{}`, refusal{422, `.authorization.k8s.io "" is invalid: ` + one}},
		{z, "selfsubjectrulesreviews", `{}`, refusal{400, `no namespace on request`}},
		{n, "tokenreviews", `{}`, refusal{400, `token is required for TokenReview in authentication`}},
		{"", "bindings", `{"metadata":{"name":"a"}}`, refusal{500, `target.name: Required value`}},

		{z, "subjectaccessreviews", `{"spec":{"user":"joe","resourceAttributes":{"verb":"get","resource":"pods"}}}`,
			refusal{403, `subjectaccessreviews.authorization.k8s.io "Unknown" is forbidden: not reviewed`}},
		{z, "selfsubjectaccessreviews", `{"spec":{"resourceAttributes":{"verb":"get","resource":"pods"}}}`,
			refusal{403, `selfsubjectaccessreviews.authorization.k8s.io "Unknown" is forbidden: not reviewed`}},
		{z, "selfsubjectrulesreviews", `{"spec":{"namespace":"space"}}`, refusal{403, `selfsubjectrulesreviews.authorization.k8s.io "Unknown" is forbidden: not reviewed`}},
		{n, "selfsubjectreviews", `{}`, refusal{403, `selfsubjectreviews.authentication.k8s.io "Unknown" is forbidden: not reviewed`}},
		{n, "tokenreviews", `{"spec":{"token":"t"}}`, refusal{403, `tokenreviews.authentication.k8s.io "Unknown" is forbidden: not reviewed`}},
		{"", "bindings", `{"metadata":{"name":"a"},"target":{"name":"node"}}`, refusal{403, `bindings "a" is forbidden: not reviewed`}},
	} {
		_, err := c.ask(c.served(review.group, review.resource), review.body)
		c.expect(err, review.want)
	}
}
