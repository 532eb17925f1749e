package resources_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

// gates record the calls that they get, in order.
type gates struct {
	steps  []string
	denied string // a verb that is forbidden
	refuse string // the step at which admission refuses
	during func(step string)
	// unrecorded is the error with which the audit refuses to begin.
	unrecorded error
}

func (g *gates) step(format string, args ...any) string {
	s := fmt.Sprintf(format, args...)
	g.steps = append(g.steps, s)
	if g.during != nil {
		g.during(s)
	}
	return s
}

func (g *gates) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	g.step("authorize %s %s %s", a.GetUser().GetName(), a.GetVerb(), a.GetName())
	if a.GetVerb() == g.denied {
		return authorizer.DecisionNoOpinion, "no rule", nil
	}
	return authorizer.DecisionAllow, "", nil
}

func (g *gates) Handles(admission.Operation) bool { return true }

func (g *gates) Admit(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return g.look("admit", a)
}

func (g *gates) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	return g.look("validate", a)
}

func (g *gates) look(what string, a admission.Attributes) error {
	name := a.GetUserInfo().GetName()
	if s := g.step("%s %s %s %s/%s", what, name, a.GetOperation(), a.GetResource().Resource, a.GetSubresource()); g.refuse != "" && strings.HasPrefix(s, g.refuse) {
		return admission.NewForbidden(a, errors.New("refused"))
	}
	return nil
}

func (g *gates) Begin(ctx context.Context) (context.Context, error)  { return ctx, g.unrecorded }
func (*gates) Sent(context.Context, *resources.Type, runtime.Object) {}

func (g *gates) End(_ context.Context, e *resources.AuditEvent) {
	what := "done"
	if e.Err != nil {
		what = string(apierrors.ReasonForError(e.Err))
	}
	g.step("audit %s %s %s/%s %s", e.User.GetName(), e.Verb, e.Namespace, e.Name, what)
}

// way is a pipeline between gates.
type way struct {
	*testing.T
	*gates
	*resources.Pipeline
	store   resources.Store
	catalog *resources.Catalog
}

func newWay(t *testing.T) *way {
	w := &way{T: t, gates: &gates{}, store: sqlitetest.Open(t)}
	w.Pipeline = resources.NewPipeline(w.store, resources.PipelineOptions{Authorizer: authorizer.AuthorizerFunc(w.gates.Authorize), Audit: w.gates})
	w.Use(w.gates, nil)
	r := resources.NewRegistry()
	r.SetGroups(builtin.Groups())
	w.catalog = r.Catalog()
	return w
}

func (w *way) typeOf(name string) *resources.Type {
	w.Helper()
	t, ok := w.catalog.Type(name)
	if !ok {
		w.Fatalf("no type %s", name)
	}
	return t
}

// request is the context of a request from jane.
func (w *way) request(verb string, t *resources.Type, name string, subresource ...string) context.Context {
	return resources.Actor{Info: &user.DefaultInfo{Name: "jane"}}.Request(w.Context(), verb, t, t.KeyOf("ns", name), subresource...)
}

func (w *way) expect(err error, reason metav1.StatusReason, steps ...string) {
	w.Helper()
	if apierrors.ReasonForError(err) != reason || (err == nil) != (reason == "") {
		w.Errorf("the error is %v, want %q", err, reason)
	}
	if diff := cmp.Diff(steps, w.steps); diff != "" {
		w.Error(diff)
	}
	w.steps = nil
}

func (w *way) config(name string) runtime.Object {
	return &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
}

// Every write passes every step, in order, and once, except those that are repeated after a lost attempt.
func TestPipelineOrder(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	_, err := w.Create(w.request("create", maps, "a"), &resources.CreateRequest{Type: maps, Decode: func() (runtime.Object, error) {
		w.step("decode")
		return w.config("a"), nil
	}})
	w.expect(err, "", "authorize jane create a", "decode", "admit jane CREATE configmaps/", "validate jane CREATE configmaps/",
		"audit jane create ns/a done")

	change := &resources.UpdateRequest{Type: maps, Name: "a", Decode: func() error { w.step("decode"); return nil },
		Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
			w.step("change")
			obj := existing.DeepCopyObject().(*core.ConfigMap)
			obj.Data = map[string]string{"a": fmt.Sprint(len(w.steps))}
			return obj, nil
		}}
	interrupted := false
	w.during = func(step string) {
		if strings.HasPrefix(step, "validate") && !interrupted {
			interrupted = true
			o, err := w.store.Get(t.Context(), maps.KeyOf("ns", "a"), resources.At{})
			if err != nil {
				t.Fatal(err)
			}
			d := resources.Draft{Data: slices.Clone(o.Data), Labels: o.Labels}
			d.RevisionStart, d.RevisionEnd, _ = resources.RevisionSpan(d.Data)
			if _, err := w.store.Commit(t.Context(), resources.Write{Op: resources.Update, Key: o.Key, From: o.Revision, Draft: d}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, _, err = w.Update(w.request("update", maps, "a"), change)
	again := []string{"change", "admit jane UPDATE configmaps/", "validate jane UPDATE configmaps/"}
	w.expect(err, "", slices.Concat([]string{"authorize jane update a", "decode"}, again, again, []string{"audit jane update ns/a done"})...)

	_, err = w.Pipeline.Delete(w.request("delete", maps, "a"), &resources.DeleteRequest{Type: maps, Name: "a",
		Precondition: func(context.Context, runtime.Object) error { w.step("precondition"); return nil }})
	w.expect(err, "", "authorize jane delete a", "precondition", "admit jane DELETE configmaps/", "validate jane DELETE configmaps/",
		"audit jane delete ns/a done")
}

// A forbidden request reveals nothing, and its body is not read; a write that admission refuses is not stored.
func TestPipelineRefuses(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	w.denied = "create"
	decode := func() (runtime.Object, error) { w.step("decode"); return w.config("a"), nil }
	_, err := w.Create(w.request("create", maps, ""), &resources.CreateRequest{Type: maps, Decode: decode})
	if want := `configmaps is forbidden: User "jane" cannot create resource "configmaps" in API group "" in the namespace "ns": no rule`; err == nil || err.Error() != want {
		t.Errorf("said %v\nwant %s", err, want)
	}
	w.expect(err, metav1.StatusReasonForbidden, "authorize jane create ", "audit jane create ns/ Forbidden")

	// A patch that turns into a create has to be allowed as a create.
	_, _, err = w.Update(w.request("patch", maps, "a"), &resources.UpdateRequest{Type: maps, Name: "a", ForceCreate: true,
		Change: func(context.Context, runtime.Object, *resources.Object) (runtime.Object, error) {
			return w.config("a"), nil
		}})
	w.expect(err, metav1.StatusReasonForbidden, "authorize jane patch a", "admit jane CREATE configmaps/", "authorize jane create a",
		"audit jane patch ns/a Forbidden")

	w.denied = ""
	for _, step := range []string{"admit", "validate"} {
		w.refuse = step
		_, err = w.Create(w.request("create", maps, "a"), &resources.CreateRequest{Type: maps, Object: w.config("a")})
		if last := w.steps[len(w.steps)-1]; !apierrors.IsForbidden(err) || last != "audit jane create ns/a Forbidden" {
			t.Errorf("%v, and %q", err, last)
		}
		w.steps = nil
	}
	if s, err := w.store.Snapshot(t.Context(), "configmaps", resources.At{}); err != nil || s.Count("", "") != 0 {
		t.Errorf("something was written: %v", err)
	}
}

// The audit records every write once, whatever its outcome and wherever it fails, also a body that cannot be read. The body of a
// forbidden request is not read.
func TestPipelineAuditsAll(t *testing.T) {
	w := newWay(t)
	maps, pods := w.typeOf("configmaps"), w.typeOf("pods")
	broken := apierrors.NewBadRequest("broken")
	decode := func() error { w.step("decode"); return broken }
	object := func() (runtime.Object, error) { return nil, decode() }
	for verb, write := range map[string]func(ctx context.Context) error{
		"create": func(ctx context.Context) error {
			_, err := w.Create(ctx, &resources.CreateRequest{Type: maps, Decode: object})
			return err
		},
		"update": func(ctx context.Context) error {
			_, _, err := w.Update(ctx, &resources.UpdateRequest{Type: maps, Name: "a", Decode: decode})
			return err
		},
		"delete": func(ctx context.Context) error {
			_, err := w.Pipeline.Delete(ctx, &resources.DeleteRequest{Type: maps, Name: "a", Decode: decode})
			return err
		},
		"deletecollection": func(ctx context.Context) error {
			return w.DeleteCollection(ctx, &resources.CollectionRequest{Type: maps, Decode: decode})
		},
		"operate": func(ctx context.Context) error {
			_, err := w.Operate(ctx, &resources.OperationRequest{Type: pods, Name: "a", Decode: object})
			return err
		},
	} {
		w.denied = ""
		w.expect(write(w.request(verb, maps, "a")), metav1.StatusReasonBadRequest, "authorize jane "+verb+" a", "decode", "audit jane "+verb+" ns/a BadRequest")
		w.denied = verb
		w.expect(write(w.request(verb, maps, "a")), metav1.StatusReasonForbidden, "authorize jane "+verb+" a", "audit jane "+verb+" ns/a Forbidden")
	}

	// A write that the audit refuses to begin is not done, and is not authorized either.
	w.unrecorded = broken
	_, err := w.Create(w.request("create", maps, "a"), &resources.CreateRequest{Type: maps, Decode: object})
	w.expect(err, metav1.StatusReasonBadRequest)
	w.unrecorded = nil

	w.denied = ""
	connect := w.request("connect", pods, "a", "exec")
	w.expect(w.Connect(connect, pods, object), metav1.StatusReasonBadRequest, "authorize jane connect a", "decode")
	w.denied = "connect"
	w.expect(w.Connect(connect, pods, object), metav1.StatusReasonForbidden, "authorize jane connect a")
}

// A collection is one write for the audit, as it is one request.
func TestPipelineAuditsCollections(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	var objects []*resources.Object
	for _, name := range []string{"a", "b"} {
		o, err := w.Create(w.request("create", maps, name), &resources.CreateRequest{Type: maps, Object: w.config(name)})
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	w.steps = nil
	all := resources.CollectionRequest{Type: maps, Options: &metav1.DeleteOptions{}, Select: func() ([]*resources.Object, error) { return objects, nil }}
	err := w.DeleteCollection(w.request("deletecollection", maps, ""), &all)
	w.expect(err, "", "authorize jane deletecollection ", "admit jane DELETE configmaps/", "validate jane DELETE configmaps/",
		"admit jane DELETE configmaps/", "validate jane DELETE configmaps/", "audit jane deletecollection ns/ done")
}

// An object that is too large with its managedFields is stored without them, as one write; one that needs them (an apply) is
// refused.
func TestPipelineTooLarge(t *testing.T) {
	w := newWay(t)
	w.store = narrow{w.store}
	w.Pipeline = resources.NewPipeline(w.store, resources.PipelineOptions{Audit: w.gates})
	maps := w.typeOf("configmaps")
	large := func() *core.ConfigMap {
		c := w.config("a").(*core.ConfigMap)
		c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:` + strings.Repeat("x", widest) + `":{}}}`)}}
		return c
	}
	create := &resources.CreateRequest{Type: maps, Decode: func() (runtime.Object, error) { return large(), nil }}
	_, err := w.Create(w.request("create", maps, "a"), create)
	w.expect(err, "", "audit jane create ns/a done")
	update := resources.UpdateRequest{Type: maps, Name: "a", Decode: func() error { return nil },
		Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
			obj := existing.DeepCopyObject().(*core.ConfigMap)
			obj.ManagedFields, obj.Data = large().ManagedFields, map[string]string{"a": "b"}
			return obj, nil
		}}
	apply := update
	apply.Owned = true
	if _, _, err = w.Update(w.request("patch", maps, "a"), &apply); !errors.Is(err, resources.ErrTooLarge) {
		t.Error(err)
	}
	w.steps = nil
	stored, _, err := w.Update(w.request("update", maps, "a"), &update)
	w.expect(err, "", "audit jane update ns/a done")
	if strings.Contains(string(stored.Data), "managedFields") {
		t.Errorf("stored %.200s", stored.Data)
	}
}

// narrow is a store that takes small objects only.
type narrow struct{ resources.Store }

const widest = 1000

func (s narrow) Commit(ctx context.Context, writes ...resources.Write) ([]*resources.Object, error) {
	for _, w := range writes {
		if len(w.Draft.Data) > widest {
			return nil, resources.ErrTooLarge
		}
	}
	return s.Store.Commit(ctx, writes...)
}

// A permission that the server's chain has obtained is not requested again, except for another request or another user.
func TestPipelineKnowsPermission(t *testing.T) {
	w := newWay(t)
	maps := w.typeOf("configmaps")
	ctx, err := w.Pipeline.Authorize(w.request("create", maps, "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		ctx   context.Context
		asked int
	}{
		{ctx, 1},
		{genericapirequest.WithUser(ctx, &user.DefaultInfo{Name: "joe"}), 2},
		{resources.APIServer.Request(ctx, "create", maps, maps.KeyOf("ns", "a")), 2},
	} {
		if _, err := w.Create(tc.ctx, &resources.CreateRequest{Type: maps, Object: w.config("a"), DryRun: true}); err != nil {
			t.Fatal(err)
		}
		asked := 1 // by the server's chain
		for _, s := range w.steps[1:] {
			if strings.HasPrefix(s, "authorize") {
				asked++
			}
		}
		if w.steps = w.steps[:1]; asked != tc.asked {
			t.Errorf("asked %d times, want %d", asked, tc.asked)
		}
	}
}

// An operation is admitted as itself; its writes are part of it. A scale is admitted as a Scale.
func TestPipelineOperation(t *testing.T) {
	w := newWay(t)
	pods, sets := w.typeOf("pods"), w.typeOf("replicasets.apps")
	if _, err := w.Create(w.request("create", pods, "p"), &resources.CreateRequest{Type: pods, Object: &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: core.PodSpec{RestartPolicy: core.RestartPolicyAlways, DNSPolicy: core.DNSClusterFirst,
			TerminationGracePeriodSeconds: new(int64), SecurityContext: &core.PodSecurityContext{},
			Containers: []core.Container{{Name: "c", Image: "i", TerminationMessagePolicy: core.TerminationMessageReadFile, ImagePullPolicy: core.PullAlways}}}}}); err != nil {
		t.Fatal(err)
	}
	w.steps = nil
	_, err := w.Operate(w.request("create", pods, "p", "binding"), &resources.OperationRequest{Type: pods, Name: "p", Do: pods.Subresources["binding"].Create,
		Options: &metav1.CreateOptions{}, Decode: func() (runtime.Object, error) {
			return &core.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: core.ObjectReference{Kind: "Node", Name: "n"}}, nil
		}})
	w.expect(err, "", "authorize jane create p", "admit jane CREATE pods/binding", "validate jane CREATE pods/binding", "audit jane create ns/p done")

	_, _, err = w.Update(w.request("update", sets, "none", "scale"), &resources.UpdateRequest{Type: sets, Name: "none", ForceCreate: true})
	w.expect(err, metav1.StatusReasonNotFound, "authorize jane update none", "audit jane update ns/none NotFound")
}

// Rows gives access to Rowlock's own rows only.
func TestRowsAreInternal(t *testing.T) {
	s := sqlitetest.Open(t)
	rows := resources.NewRows(s)
	if _, err := rows.Create(t.Context(), resources.Key{Resource: "configmaps", Namespace: "ns", Name: "a"}, "ConfigMap", 1, 0); err == nil {
		t.Error("an object was written")
	}
	o, err := rows.Create(t.Context(), resources.Key{Resource: "servers.rowlock.internal", Name: "a"}, "Server", 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if o, err = rows.Update(t.Context(), o, "Server", 2, 0); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := resources.DecodeInternal(o, &n); err != nil || n != 2 {
		t.Error(n, err)
	}
	if err := rows.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if err := rows.Delete(t.Context(), o); !errors.Is(err, resources.ErrNotFound) {
		t.Error(err)
	}
}
