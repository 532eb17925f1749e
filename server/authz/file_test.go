package authz_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/rowlock/rowlock/server/authz"
	"github.com/rowlock/rowlock/server/servertest"
)

// hook is a TLS webhook with a configurable answer.
type hook struct {
	calls atomic.Int32
	last  atomic.Pointer[authorizationv1.SubjectAccessReviewSpec]
	// kubeconfig is the file with its address.
	kubeconfig string
}

func newHook(t testing.TB, answer func(authorizationv1.SubjectAccessReviewSpec) string) *hook {
	t.Helper()
	h := &hook{}
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.calls.Add(1)
		var review authorizationv1.SubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		h.last.Store(&review.Spec)
		fmt.Fprintf(w, `{"apiVersion":%q,"kind":"SubjectAccessReview","status":%s}`, review.APIVersion, answer(review.Spec))
	}))
	t.Cleanup(s.Close)
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	h.kubeconfig = filepath.Join(dir, "kubeconfig")
	write(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	write(t, h.kubeconfig, fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: %q, certificate-authority: %s}}]\nusers: [{name: u}]\n"+
		"contexts: [{name: x, context: {cluster: c, user: u}}]\ncurrent-context: x\n", s.URL, authority))
	return h
}

func says(status string) func(authorizationv1.SubjectAccessReviewSpec) string {
	return func(authorizationv1.SubjectAccessReviewSpec) string { return status }
}

const allows, denies, shrugs, broken = `{"allowed":true,"reason":"it may"}`, `{"allowed":false,"denied":true,"reason":"it may not"}`, `{"allowed":false}`, `{`

// entry returns the webhook's entry in an AuthorizationConfiguration, without caching.
func (h *hook) entry(name, failurePolicy string, conditions ...string) string {
	s := fmt.Sprintf("- type: Webhook\n  name: %s\n  webhook: {timeout: 10s, subjectAccessReviewVersion: v1, matchConditionSubjectAccessReviewVersion: v1, failurePolicy: %s,\n"+
		"    authorizedTTL: 1m, unauthorizedTTL: 1m, connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s},\n"+
		"    cacheAuthorizedRequests: false, cacheUnauthorizedRequests: false,\n    matchConditions: [", name, failurePolicy, h.kubeconfig)
	for _, c := range conditions {
		s += fmt.Sprintf("{expression: %q},", c)
	}
	return s + "]}\n"
}

func write(t testing.TB, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// configured writes a file with these authorizers.
func configured(t testing.TB, version string, entries ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "authorization.yaml")
	write(t, file, configuration(version, entries...))
	return file
}

func configuration(version string, entries ...string) string {
	return "apiVersion: apiserver.config.k8s.io/" + version + "\nkind: AuthorizationConfiguration\nauthorizers:\n" + strings.Join(entries, "")
}

const ofRBAC = "- {type: RBAC, name: rbac}\n"

// decides returns a decision with its reason.
func decides(t *testing.T, a authorizer.UnconditionalAuthorizer, q authorizer.Attributes) string {
	t.Helper()
	decision, reason, err := a.Authorize(t.Context(), q)
	words := map[authorizer.Decision]string{authorizer.DecisionAllow: "allow", authorizer.DecisionDeny: "deny", authorizer.DecisionNoOpinion: "none"}
	if err != nil {
		return words[decision] + ", error"
	}
	return strings.TrimSuffix(words[decision]+" "+reason, " ")
}

func ann(namespace string) authorizer.AttributesRecord {
	return ask(&user.DefaultInfo{Name: "ann", Groups: []string{"g"}, Extra: map[string][]string{"x": {"y"}}}, "get", namespace, "pods", "p")
}

// counted returns the value of one of upstream's counters.
func counted(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var has []string
			for _, l := range m.GetLabel() {
				has = append(has, l.GetName()+"="+l.GetValue())
			}
			if f.GetName() == name && strings.Join(has, " ") == strings.Join(labels, " ") {
				return m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// Webhooks are called in their order among the authorizers, if their match conditions hold, and their failure policy decides when one
// fails.
func TestConfiguration(t *testing.T) {
	deny, allow, shrug := newHook(t, says(denies)), newHook(t, says(allows)), newHook(t, says(shrugs))
	failed, ignored := newHook(t, says(broken)), newHook(t, says(broken))
	in := func(namespace string) []string {
		return []string{"has(request.resourceAttributes)", "request.resourceAttributes.namespace == '" + namespace + "'"}
	}
	file := configured(t, "v1", deny.entry("config-deny", "Deny", in("denied")...), shrug.entry("config-shrug", "Deny"),
		failed.entry("config-fail", "Deny", in("failed")...), ignored.entry("config-ignore", "NoOpinion", in("ignored")...),
		deny.entry("config-strange", "NoOpinion", "request.resourceAttributes.labelSelector.requirements.size() > 0", in("strange")[1]),
		allow.entry("config-allow", "Deny", "request.user == 'ann' && 'g' in request.groups", "!has(request.resourceAttributes) || request.resourceAttributes.namespace != 'rbac'"), ofRBAC)
	f := newFixture(t)
	a, err := authz.New(authz.Options{Store: f.store, Logger: servertest.Quiet, File: file})
	if err != nil {
		t.Fatal(err)
	}
	if !a.AsksRBAC() {
		t.Error("the file has RBAC, which is not asked")
	}
	before := map[int]float64{}
	counters := []struct {
		name   string
		labels []string
		want   float64
	}{
		{"apiserver_authorization_decisions_total", []string{"decision=denied", "name=config-deny", "type=Webhook"}, 1},
		{"apiserver_authorization_decisions_total", []string{"decision=allowed", "name=config-allow", "type=Webhook"}, 4},
		{"apiserver_authorization_webhook_evaluations_total", []string{"name=config-shrug", "result=success"}, 6},
		{"apiserver_authorization_webhook_evaluations_total", []string{"name=config-fail", "result=error"}, 1},
		{"apiserver_authorization_webhook_evaluations_fail_open_total", []string{"name=config-ignore", "result=error"}, 1},
		{"apiserver_authorization_webhook_duration_seconds", []string{"name=config-allow", "result=success"}, 4},
		{"apiserver_authorization_match_condition_exclusions_total", []string{"name=config-deny", "type=Webhook"}, 6},
		{"apiserver_authorization_match_condition_evaluation_errors_total", []string{"name=config-strange", "type=Webhook"}, 5},
	}
	for i, c := range counters {
		before[i] = counted(t, c.name, c.labels...)
	}
	for namespace, want := range map[string]string{"denied": "deny it may not", "failed": "deny, error", "ignored": "allow it may", "strange": "allow it may",
		"any": "allow it may", "rbac": "none"} {
		if got := decides(t, a, ann(namespace)); got != want {
			t.Errorf("in %s: %s, want %s", namespace, got, want)
		}
	}
	master := ann("denied")
	master.User = &user.DefaultInfo{Name: "m", Groups: []string{user.SystemPrivilegedGroup}}
	if got := decides(t, a, master); got != "allow" {
		t.Errorf("a member of system:masters: %s", got)
	}
	path := authorizer.AttributesRecord{User: ann("").User, Verb: "get", Path: "/metrics"}
	if got := decides(t, a, path); got != "allow it may" || allow.last.Load().NonResourceAttributes.Path != "/metrics" || allow.last.Load().Extra["x"][0] != "y" {
		t.Errorf("a path: %s %v", got, allow.last.Load())
	}
	if n := shrug.calls.Load(); n != 6 {
		t.Errorf("the webhook without opinion was asked %d times", n)
	}
	if _, _, incomplete, err := a.RulesFor(t.Context(), ann("").User, "a"); !incomplete || err == nil {
		t.Errorf("what webhooks allow is listed: %v", err)
	}
	for i, c := range counters {
		if got := counted(t, c.name, c.labels...) - before[i]; got != c.want {
			t.Errorf("%s %v: %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// signals is a log handler that signals messages with a given beginning.
type signals struct {
	slog.Handler
	prefix string
	heard  chan string
}

func (s signals) Handle(_ context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, s.prefix) {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "error" {
				r.Message += ": " + a.Value.String()
			}
			return true
		})
		s.heard <- r.Message
	}
	return nil
}

func (s signals) Enabled(context.Context, slog.Level) bool { return true }

// A changed file takes effect without a restart, unless it is invalid or lacks an authorizer that was there at the start.
func TestConfigurationIsReadAgain(t *testing.T) {
	deny, allow := newHook(t, says(denies)), newHook(t, says(allows))
	file := configured(t, "v1beta1", deny.entry("reload-deny", "Deny"), ofRBAC)
	f, log := newFixture(t), signals{slog.DiscardHandler, "t", make(chan string, 100)}
	a, err := authz.New(authz.Options{Store: f.store, Logger: slog.New(log), File: file, ServerID: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := reloads(t, "success"), reloads(t, "failure")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.Run(ctx)
	}()
	inCluster := strings.Replace(deny.entry("reload-cluster", "Deny"), "type: KubeConfigFile, kubeConfigFile: "+deny.kubeconfig, "type: InClusterConfig", 1)
	if err := authz.CheckFile(configured(t, "v1", inCluster, ofRBAC)); err == nil || !strings.Contains(err.Error(), "InClusterConfig is not supported") {
		t.Errorf("a webhook without a kubeconfig: %v", err)
	}
	for _, c := range []struct{ content, logged, want string }{
		{configuration("v1", allow.entry("reload-allow", "Deny"), ofRBAC), "took up the changed authorization configuration", "allow it may"},
		{configuration("v1", deny.entry("reload-deny", "Deny")), "missing required types: [RBAC]", "allow it may"},
		{configuration("v1", deny.entry("reload-deny", "Deny"), ofRBAC, "- {type: Node, name: node}\n"), "authorizer type Node is not allowed", "allow it may"},
		{configuration("v1", ofRBAC, deny.entry("reload-deny", "Sometimes")), `failurePolicy: Unsupported value: "Sometimes"`, "allow it may"},
		{configuration("v1", deny.entry("reload-deny", "Deny", "request.colour == 'red'"), ofRBAC), "undefined field 'colour'", "allow it may"},
		{configuration("v1", ofRBAC, "- {type: RBAC, name: rbac}\n"), "Duplicate value", "allow it may"},
		{configuration("v1", inCluster, ofRBAC), "authorizer reload-cluster: connectionInfo type InClusterConfig is not supported", "allow it may"},
		{configuration("v1", "- {type: RBAC, name: mine}\n"), "expected name rbac for authorizer RBAC instead of mine", "allow it may"},
		{configuration("v1", deny.entry("reload-deny", "Deny"), ofRBAC), "took up the changed authorization configuration", "deny it may not"},
	} {
		// Renaming prevents reads of half a file.
		write(t, file+".new", c.content)
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
		for said := ""; !strings.Contains(said, c.logged); {
			select {
			case said = <-log.heard:
				t.Log(said)
			case <-ended:
				t.Fatal("nobody follows the file")
			}
		}
		if got := decides(t, a, ann("a")); got != c.want {
			t.Errorf("after %s: %s, want %s", c.logged, got, c.want)
		}
	}
	stop()
	<-ended
	if taken, refused := reloads(t, "success")-taken, reloads(t, "failure")-refused; taken != 2 || refused != 7 {
		t.Errorf("%v reloads are counted as successes, and %v as failures", taken, refused)
	}
	if !inForce(t, configuration("v1", deny.entry("reload-deny", "Deny"), ofRBAC)) {
		t.Error("the last file is not shown to be in force")
	}
}

// The modes of flags are asked in their order, policies of a file among them.
func TestModes(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies")
	write(t, policies, `{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"ann","namespace":"a","resource":"pods","apiGroup":"*","readonly":true}}`+"\n"+
		"# a comment\n"+`{"user":"old","resource":"pods"}`+"\n")
	h := newHook(t, func(q authorizationv1.SubjectAccessReviewSpec) string {
		if q.ResourceAttributes.Namespace == "b" {
			return allows
		}
		return denies
	})
	file := configured(t, "v1", h.entry("w", "NoOpinion"))
	if err := authz.CheckFile(file); err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	webhook := webhookOf(h)
	for _, c := range []struct {
		modes     []string
		namespace string
		want      string
	}{
		{[]string{"ABAC", "Webhook"}, "a", "allow"},
		{[]string{"Webhook", "ABAC"}, "a", "deny it may not"},
		{[]string{"ABAC", "Webhook"}, "b", "allow it may"},
		{[]string{"ABAC"}, "b", "none abac: No policy matched."},
		{[]string{"RBAC", "ABAC", "AlwaysDeny"}, "b", "none abac: No policy matched.\nalwaysdeny: Everything is forbidden."},
		{[]string{"AlwaysDeny", "AlwaysAllow"}, "b", "allow"},
	} {
		a, err := authz.New(authz.Options{Store: f.store, Logger: servertest.Quiet, Modes: c.modes, PolicyFile: policies, Webhook: webhook})
		if err != nil {
			t.Fatal(err)
		}
		if got := decides(t, a, ann(c.namespace)); got != c.want {
			t.Errorf("%v in %s: %q, want %q", c.modes, c.namespace, got, c.want)
		}
		if want := slices.Contains(c.modes, "RBAC"); a.AsksRBAC() != want {
			t.Errorf("%v ask RBAC: %t", c.modes, !want)
		}
	}
	for _, o := range []authz.Options{{}, {Modes: []string{"Magic"}}, {Modes: []string{"ABAC"}, PolicyFile: "/nowhere"}, {File: "/nowhere"}, {File: policies}} {
		if _, err := authz.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}
