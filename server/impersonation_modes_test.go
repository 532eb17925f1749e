package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/filters/impersonation"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server"
)

// impersonator sends the same request to this server and to upstream's filter, for one requester with some rights.
type impersonator struct {
	who    *user.DefaultInfo
	rights sets.Set[string]
	// asked are the rights that an authorizer was asked about.
	asked     []string
	here, ups http.Handler
}

// Authorize implements authorizer.Authorizer. A right is "verb resource name", with the namespace, if any, before the name.
func (i *impersonator) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	if !strings.HasPrefix(a.GetVerb(), "impersonate") {
		return authorizer.DecisionAllow, "", nil
	}
	right := strings.Join([]string{a.GetVerb(), strings.TrimSuffix(a.GetResource()+"/"+a.GetSubresource(), "/"), strings.TrimPrefix(a.GetNamespace()+"/"+a.GetName(), "/")}, " ")
	decision := authorizer.DecisionNoOpinion
	if i.rights.Has(right) {
		decision = authorizer.DecisionAllow
	}
	u := a.GetUser()
	i.asked = append(i.asked, fmt.Sprintf("%s/%s %s by %s %s %s %s: %v", a.GetAPIGroup(), a.GetAPIVersion(), right, u.GetName(), u.GetUID(), u.GetGroups(), u.GetExtra(), decision))
	return decision, "no", nil
}

func newImpersonator(t *testing.T) *impersonator {
	t.Helper()
	i := &impersonator{}
	i.here = newServer(t, func(c *server.Config) {
		c.Pipeline = resources.NewPipeline(c.Store.(resources.Store), resources.PipelineOptions{Authorizer: i})
		c.Authenticator = func(*http.Request) (user.Info, bool, error) { return i.who, true, nil }
	}).Handler()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	infos := &apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")}
	filter := impersonation.WithConstrainedImpersonation(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as, _ := apirequest.UserFrom(r.Context())
		review := authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{
			Username: as.GetName(), UID: as.GetUID(), Groups: as.GetGroups()}}}
		for key, values := range as.GetExtra() {
			if review.Status.UserInfo.Extra == nil {
				review.Status.UserInfo.Extra = map[string]authenticationv1.ExtraValue{}
			}
			review.Status.UserInfo.Extra[key] = values
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(review)
	}), i, serializer.NewCodecFactory(scheme))
	i.ups = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		info, err := infos.NewRequestInfo(r)
		if err != nil {
			t.Error(err)
		}
		filter.ServeHTTP(w, r.WithContext(apirequest.WithRequestInfo(apirequest.WithUser(r.Context(), i.who), info)))
	})
	return i
}

// answer is what a client and the authorizer see of a request.
type answer struct {
	Code    int
	Message string
	User    authenticationv1.UserInfo
	Asked   []string
}

func (i *impersonator) ask(t *testing.T, h http.Handler, headers http.Header) (a answer) {
	t.Helper()
	i.asked = nil
	a.Code, a.User, a.Message = whoAmI(t, h, headers.Clone())
	slices.Sort(i.asked) // upstream goes through the extra in the order of a map
	a.Asked = i.asked
	return a
}

// Each mode of constrained impersonation (KEP-5284) has the same checks, in the same circumstances, with the same results as upstream's filter.
func TestImpersonationModes(t *testing.T) {
	const on = " selfsubjectreviews "
	i := newImpersonator(t)
	agent := func(nodes ...string) *user.DefaultInfo {
		return &user.DefaultInfo{Name: "system:serviceaccount:default:agent", UID: "u", Groups: []string{"system:serviceaccounts", "system:authenticated"},
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": nodes, "authentication.kubernetes.io/pod-name": {"p"}}}
	}
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"system:authenticated"}, Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}}}
	node := []string{"Impersonate-User", "system:node:n1"}
	robot := []string{"Impersonate-User", "system:serviceaccount:space:robot"}
	jane := []string{"Impersonate-User", "jane"}
	with := func(headers []string, more ...string) []string { return slices.Concat(headers, more) }
	groups := func(names ...string) (all []string) {
		for _, name := range names {
			all = append(all, "Impersonate-Group", name)
		}
		return all
	}
	associated := []string{"impersonate-on:associated-node:create" + on, "impersonate:associated-node nodes *"}
	arbitrary := []string{"impersonate-on:arbitrary-node:create" + on, "impersonate:arbitrary-node nodes n1"}
	account := []string{"impersonate-on:serviceaccount:create" + on, "impersonate:serviceaccount serviceaccounts space/robot"}
	info := []string{"impersonate-on:user-info:create" + on, "impersonate:user-info users jane"}
	for name, c := range map[string]struct {
		who     *user.DefaultInfo
		headers []string
		rights  []string
		allowed bool
	}{
		"the node of the requester":                {agent("n1"), node, associated, true},
		"the node of the requester, by name":       {agent("n1"), node, []string{associated[0], "impersonate:associated-node nodes n1"}, false},
		"the node of the requester, not for this":  {agent("n1"), node, associated[1:], false},
		"the node of the requester, and a group":   {agent("n1"), with(node, groups("g")...), associated, false},
		"the node of the requester, and a uid":     {agent("n1"), with(node, "Impersonate-Uid", "7"), associated, false},
		"another node":                             {agent("n2"), node, associated, false},
		"another node, any":                        {agent("n2"), node, arbitrary, true},
		"the node of a requester without one":      {agent(), node, associated, false},
		"the node of a requester with two":         {agent("n1", "n1"), node, associated, false},
		"the node of a user":                       {ann, node, associated, false},
		"any node":                                 {ann, node, arbitrary, true},
		"any node, but another":                    {ann, []string{"Impersonate-User", "system:node:n2"}, arbitrary, false},
		"any node, not for this":                   {ann, node, arbitrary[1:], false},
		"any node, and a group":                    {ann, with(node, groups("g")...), arbitrary, false},
		"any node, with extra":                     {ann, with(node, "Impersonate-Extra-Example.com%2fk", "v"), arbitrary, false},
		"a node by its right as a user":            {ann, node, []string{info[0], "impersonate:user-info users system:node:n1"}, false},
		"no node":                                  {ann, []string{"Impersonate-User", "system:node:N_1"}, []string{info[0], "impersonate:user-info users system:node:N_1"}, true},
		"a node in the legacy mode":                {ann, node, []string{"impersonate users system:node:n1"}, true},
		"a service account":                        {ann, robot, account, true},
		"a service account, but another":           {ann, []string{"Impersonate-User", "system:serviceaccount:other:robot"}, account, false},
		"a service account, not for this":          {ann, robot, account[1:], false},
		"a service account, and a uid":             {ann, with(robot, "Impersonate-Uid", "7"), account, false},
		"a service account by its right as a user": {ann, robot, []string{info[0], "impersonate:user-info users system:serviceaccount:space:robot"}, false},
		"no service account":                       {ann, []string{"Impersonate-User", "system:serviceaccount:x"}, []string{info[0], "impersonate:user-info users system:serviceaccount:x"}, true},
		"a user":                                   {ann, jane, info, true},
		"the anonymous user":                       {ann, []string{"Impersonate-User", "system:anonymous"}, []string{info[0], "impersonate:user-info users system:anonymous"}, true},
		"a user, not for this":                     {ann, jane, info[1:], false},
		"a uid":                                    {ann, with(jane, "Impersonate-Uid", "7"), with(info, "impersonate:user-info uids 7"), true},
		"another uid":                              {ann, with(jane, "Impersonate-Uid", "8"), with(info, "impersonate:user-info uids 7"), false},
		"a uid by the right to all":                {ann, with(jane, "Impersonate-Uid", "8"), with(info, "impersonate:user-info uids *"), false},
		"masters":                                  {ann, with(jane, groups("system:masters")...), with(info, "impersonate:user-info groups system:masters", "impersonate:user-info groups *"), false},
		"masters among many":                       {ann, with(jane, groups("a", "b", "c", "system:masters")...), with(info, "impersonate:user-info groups *"), false},
		"masters in the legacy mode":               {ann, with(jane, groups("system:masters")...), []string{"impersonate users jane", "impersonate groups system:masters"}, true},
		"an empty group":                           {ann, with(jane, groups("a", "")...), with(info, "impersonate:user-info groups a", "impersonate:user-info groups "), false},
		"an empty group in the legacy mode":        {ann, with(jane, groups("")...), []string{"impersonate users jane", "impersonate groups "}, true},
		"three groups":                             {ann, with(jane, groups("a", "b", "c")...), with(info, "impersonate:user-info groups a", "impersonate:user-info groups b", "impersonate:user-info groups c"), true},
		"three groups by the right to all":         {ann, with(jane, groups("a", "b", "c")...), with(info, "impersonate:user-info groups *"), false},
		"four groups by the right to all":          {ann, with(jane, groups("a", "b", "c", "d")...), with(info, "impersonate:user-info groups *"), true},
		"four groups one by one": {ann, with(jane, groups("a", "b", "c", "a")...), with(info, "impersonate:user-info groups a", "impersonate:user-info groups b",
			"impersonate:user-info groups c"), true},
		"four groups, one of them too many": {ann, with(jane, groups("a", "b", "c", "d")...), with(info, "impersonate:user-info groups a", "impersonate:user-info groups b"), false},
		"four groups in the legacy mode": {ann, with(jane, groups("a", "b", "c", "d")...), []string{"impersonate users jane", "impersonate groups *", "impersonate groups a",
			"impersonate groups b", "impersonate groups c"}, false},
		"extra":         {ann, with(jane, "Impersonate-Extra-Example.com%2fk", "v"), with(info, "impersonate:user-info userextras/example.com/k v"), true},
		"another value": {ann, with(jane, "Impersonate-Extra-Example.com%2fk", "w"), with(info, "impersonate:user-info userextras/example.com/k v"), false},
		"three values by the right to all": {ann, with(jane, "Impersonate-Extra-Example.com%2fk", "u", "Impersonate-Extra-Example.com%2fk", "v", "Impersonate-Extra-Example.com%2fk", "w"),
			with(info, "impersonate:user-info userextras/* *"), false},
		"four values by the right to all": {ann, with(jane, "Impersonate-Extra-Example.com%2fk", "u", "Impersonate-Extra-Example.com%2fk", "v", "Impersonate-Extra-Example.com%2fk", "w",
			"Impersonate-Extra-Example.com%2fl", "x"), with(info, "impersonate:user-info userextras/* *"), true},
		"four values one by one": {ann, with(jane, "Impersonate-Extra-Example.com%2fk", "u", "Impersonate-Extra-Example.com%2fk", "v", "Impersonate-Extra-Example.com%2fl", "u",
			"Impersonate-Extra-Example.com%2fl", "v"), with(info, "impersonate:user-info userextras/example.com/k u", "impersonate:user-info userextras/example.com/k v",
			"impersonate:user-info userextras/example.com/l u", "impersonate:user-info userextras/example.com/l v"), true},
		"an empty value":               {ann, with(jane, "Impersonate-Extra-Example.com%2fk", ""), with(info, "impersonate:user-info userextras/example.com/k "), false},
		"a key without a domain":       {ann, with(jane, "Impersonate-Extra-K", "v"), with(info, "impersonate:user-info userextras/k v"), false},
		"a key in the legacy mode":     {ann, with(jane, "Impersonate-Extra-K", "v"), []string{"impersonate users jane", "impersonate userextras/k v"}, true},
		"an upper-case key":            {ann, with(jane, "Impersonate-Extra-Example.com%2f%4b", "v"), with(info, "impersonate:user-info userextras/example.com/K v"), false},
		"nothing but the request":      {ann, jane, info[:1], false},
		"legacy rights to the request": {ann, jane, []string{"impersonate-on:user-info:create" + on, "impersonate:user-info:create" + on}, false},
	} {
		t.Run(name, func(t *testing.T) {
			who := *c.who // each case has a requester of its own, without earlier impersonations
			who.Name += "-" + strings.NewReplacer(" ", "-", ",", "").Replace(name)
			i.who, i.rights = &who, sets.New(c.rights...)
			headers := http.Header{}
			for n := 0; n < len(c.headers); n += 2 {
				headers.Add(c.headers[n], c.headers[n+1])
			}
			got, want := i.ask(t, i.here, headers), i.ask(t, i.ups, headers)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-upstream +here):\n%s", diff)
			}
			if allowed := got.Code == http.StatusCreated; allowed != c.allowed || got.Code != http.StatusCreated && got.Code != http.StatusForbidden {
				t.Errorf("answered %d %s", got.Code, got.Message)
			}
		})
	}
}
