package builtin_test

import (
	"context"
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/sqlstore"
	"github.com/rowlock/rowlock/sqlstore/sqlitetest"
)

const space = "space"

// cluster is the built-in types over a store on a file.
type cluster struct {
	*testing.T
	store    *sqlstore.Store
	pipeline *resources.Pipeline
	catalog  *resources.Catalog
}

func newCluster(t *testing.T, parts builtin.Parts) *cluster {
	t.Helper()
	s := sqlitetest.Open(t)
	r := resources.NewRegistry()
	r.SetGroups(parts.Groups())
	return &cluster{T: t, store: s, pipeline: resources.NewPipeline(s, resources.PipelineOptions{}), catalog: r.Catalog()}
}

func (c *cluster) served(group, resource string) *resources.Served {
	c.Helper()
	g, ok := c.catalog.Group(group)
	if !ok {
		c.Fatalf("no group %q", group)
	}
	s, ok := c.catalog.Lookup(g.Versions[0].WithResource(resource))
	if !ok {
		c.Fatalf("no resource %s in %s", resource, g.Versions[0])
	}
	return s
}

// request is the context in which the server calls the rules of a type.
func (c *cluster) request(s *resources.Served, sub, name string) context.Context {
	ctx := genericapirequest.WithUser(c.Context(), &user.DefaultInfo{Name: "jane", Groups: []string{"rowers"}})
	info := &genericapirequest.RequestInfo{IsResourceRequest: true, APIGroup: s.Group, APIVersion: s.Version, Resource: s.Resource,
		Subresource: sub, Name: name}
	if s.Namespaced {
		info.Namespace = space
	}
	return genericapirequest.WithRequestInfo(genericapirequest.WithNamespace(ctx, info.Namespace), info)
}

// decode makes the hub form of a client's body.
func decode(t testing.TB, gvk schema.GroupVersionKind, body string) runtime.Object {
	t.Helper()
	obj, _, err := builtin.Codecs.UniversalDeserializer().Decode([]byte(body), &gvk, nil)
	if err != nil {
		t.Fatal(err)
	}
	builtin.Scheme.Default(obj)
	hub, err := builtin.Scheme.ConvertToVersion(obj, runtime.InternalGroupVersioner)
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

func (c *cluster) create(group, resource, body string) {
	c.Helper()
	s := c.served(group, resource)
	obj := decode(c, s.GroupVersionKind, body)
	if m, _ := meta.Accessor(obj); s.Namespaced {
		m.SetNamespace(space)
	}
	if _, err := c.pipeline.Create(c.request(s, "", ""), &resources.CreateRequest{Type: s.Type, Object: obj}); err != nil {
		c.Fatal(err)
	}
}

// update changes an object as if through its status.
func (c *cluster) update(group, resource, name string, change func(runtime.Object)) {
	c.Helper()
	s := c.served(group, resource)
	r := resources.UpdateRequest{Type: s.Type, Name: name}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		obj := existing.DeepCopyObject()
		change(obj)
		return obj, nil
	}
	if _, _, err := c.pipeline.Update(c.request(s, "status", name), &r); err != nil {
		c.Fatal(err)
	}
}

// get returns an object in the hub form, or nil.
func (c *cluster) get(group, resource, name string) runtime.Object {
	c.Helper()
	s := c.served(group, resource)
	namespace := ""
	if s.Namespaced {
		namespace = space
	}
	o, err := c.store.Get(c.Context(), s.KeyOf(namespace, name), resources.At{})
	if errors.Is(err, resources.ErrNotFound) {
		return nil
	}
	if err != nil {
		c.Fatal(err)
	}
	hub, err := s.DecodeHub(o)
	if err != nil {
		c.Fatal(err)
	}
	return hub
}

// post creates an object at a subresource.
func (c *cluster) post(group, resource, name, sub, body string, dryRun ...string) error {
	c.Helper()
	s := c.served(group, resource)
	p := s.Subresources[sub]
	_, err := c.pipeline.Operate(c.request(s, sub, name), &resources.OperationRequest{Type: s.Type, Name: name, Complete: p.Complete, Do: p.Create,
		Decode:  func() (runtime.Object, error) { return decode(c, p.Kind, body), nil },
		Options: &metav1.CreateOptions{DryRun: dryRun}})
	return err
}

// ask creates an object of a virtual type.
func (c *cluster) ask(s *resources.Served, body string) (runtime.Object, error) {
	return c.pipeline.Operate(c.request(s, "", ""), &resources.OperationRequest{Type: s.Type, Do: s.Virtual,
		Decode:  func() (runtime.Object, error) { return decode(c, s.GroupVersionKind, body), nil },
		Options: &metav1.CreateOptions{}})
}

// refusal is the error that a test expects: kube-apiserver's code and message.
type refusal struct {
	code    int32
	message string
}

func (c *cluster) expect(err error, want refusal) {
	c.Helper()
	var status apierrors.APIStatus
	switch {
	case err == nil:
		c.Errorf("no error, want %d %q", want.code, want.message)
	case !errors.As(err, &status):
		if want.code != 500 || err.Error() != want.message {
			c.Errorf("got %q, want %d %q", err, want.code, want.message)
		}
	case status.Status().Code != want.code || status.Status().Message != want.message:
		c.Errorf("got  %d %q\nwant %d %q", status.Status().Code, status.Status().Message, want.code, want.message)
	}
}
