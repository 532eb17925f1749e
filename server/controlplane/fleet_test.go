package controlplane_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// fleet is a set of whole servers with controllers on one database. Clients send requests to all of them in turn.
type fleet struct {
	*testing.T
	servers []kept
	turn    *atomic.Int64
}

// newFleet creates servers, each with one of the stores.
func newFleet(t *testing.T, stores []*sqlstore.Store) fleet {
	t.Helper()
	f := fleet{T: t, turn: &atomic.Int64{}}
	for _, store := range stores {
		session := store.Session()
		k := newWhole(t, func(c *server.Config, p *controlplane.Config) {
			c.Store, c.Pipeline = store, resources.NewPipeline(store, resources.PipelineOptions{})
			p.Store, p.Pipeline = c.Store, c.Pipeline
		})
		f.servers = append(f.servers, k)
		c := controllers.Config{Registry: k.registry, Store: k.store, Pipeline: k.pipeline, Logger: servertest.Quiet, Enabled: controllers.Names()}
		if session != nil {
			c.Elect = controllers.Election{Registry: k.registry, Store: k.store, Pipeline: k.pipeline, Logger: servertest.Quiet,
				Identity: session.Self(), Lock: session.Elect}.Elect
		}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- controllers.Run(ctx, c) }()
		t.Cleanup(func() {
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
	return f
}

// onEveryDatabase runs a test on SQLite, on Postgres, and on two servers of one Postgres.
func onEveryDatabase(t *testing.T, test func(t *testing.T, f fleet)) {
	t.Helper()
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) { test(t, newFleet(t, stores)) })
}

// serve makes all servers serve the kind Toy; stopServing ends that.
func (f fleet) serve(versions ...untypedtest.Version) {
	f.Helper()
	for _, k := range f.servers {
		if err := untypedtest.Serve(k.registry, versions...); err != nil {
			f.Fatal(err)
		}
	}
}

func (f fleet) stopServing() {
	for _, k := range f.servers {
		k.registry.RemoveGroup(untypedtest.Group)
	}
}

// next returns the next server in turn.
func (f fleet) next() kept { return f.servers[int(f.turn.Add(1))%len(f.servers)] }

// on sends a request to a server.
func (f fleet) on(k kept, method, path, body string) (int, gjson.Result) {
	r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(f.Context())
	r.Header.Set("Authorization", "known")
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	k.s.Handler().ServeHTTP(w, r)
	return w.Code, gjson.ParseBytes(w.Body.Bytes())
}

// send sends a request whose answer has to have one of the codes.
func (f fleet) send(method, path, body string, codes ...int) gjson.Result {
	f.Helper()
	code, answer := f.on(f.next(), method, path, body)
	if !slices.Contains(codes, code) {
		f.Errorf("%s %s: %d %s", method, path, code, answer.Raw)
	}
	return answer
}

// insist repeats a request while the answer is that the type is not served at present.
func (f fleet) insist(method, path, body string, codes ...int) gjson.Result {
	f.Helper()
	for {
		code, answer := f.on(f.next(), method, path, body)
		if slices.Contains(codes, code) {
			return answer
		}
		if code != 404 || answer.Get("details.name").Exists() || f.Context().Err() != nil {
			f.Errorf("%s %s: %d %s", method, path, code, answer.Raw)
			return answer
		}
	}
}

// until waits until an object satisfies a condition on every server; nil stands for a missing object.
func (f fleet) until(what string, key resources.Key, is func(*resources.Object) bool) {
	f.Helper()
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	for _, k := range f.servers {
		if err := await(ctx, k.store, key, is); err != nil {
			f.Fatalf("%s: %s did not come about: %v", key, what, err)
		}
	}
}

func await(ctx context.Context, store resources.Store, key resources.Key, is func(*resources.Object) bool) error {
	s, err := store.Snapshot(ctx, key.Resource, resources.At{Match: resources.Any})
	if err != nil || is(s.Get(key.Namespace, key.Name)) {
		return err
	}
	w, err := store.Watch(ctx, resources.WatchOptions{Resource: key.Resource, Namespace: key.Namespace, Name: key.Name, After: s.Revision()})
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		events, _, err := w.Next(ctx, 1000)
		if err != nil {
			return err
		}
		for _, e := range events {
			now := e.Object
			if e.Op == resources.Delete {
				now = nil
			}
			if is(now) {
				return nil
			}
		}
		if len(events) > 0 {
			continue
		}
		select {
		case <-w.Ready():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func toyKey(namespace, name string) resources.Key {
	return resources.Key{Resource: "toys." + untypedtest.Group, Namespace: namespace, Name: name}
}

func mapKey(namespace, name string) resources.Key {
	return resources.Key{Resource: "configmaps", Namespace: namespace, Name: name}
}

func (f fleet) gone(keys ...resources.Key) {
	f.Helper()
	for _, key := range keys {
		f.until("its end", key, func(o *resources.Object) bool { return o == nil })
	}
}

// stays checks that objects exist after the controllers have certainly examined them.
func (f fleet) stays(keys ...resources.Key) {
	f.Helper()
	for i := range 5 {
		f.object("default", "canary", fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","name":"absent","uid":"absent-%d"}`, i))
		f.gone(mapKey("default", "canary"))
	}
	for _, key := range keys {
		if o, err := f.servers[0].store.Get(f.Context(), key, resources.At{Match: resources.MostRecent}); err != nil {
			f.Errorf("%s: %v", key, err)
		} else if gjson.GetBytes(o.Data, "metadata.deletionTimestamp").Exists() {
			f.Errorf("%s is being deleted", key)
		}
	}
}

func (f fleet) namespace(name string) string {
	f.Helper()
	f.send("POST", "/api/v1/namespaces", `{"metadata":{"name":"`+name+`"}}`, 201)
	return name
}

func toysIn(namespace string) string {
	return "/apis/toys.example.org/v1/namespaces/" + namespace + "/toys"
}

func metadataOf(name string, owners ...string) string {
	return `"metadata":{"name":"` + name + `","ownerReferences":[` + strings.Join(owners, ",") + `]}`
}

// object creates a config map, toy a toy, with the given owners. They return a reference to it.
func (f fleet) object(namespace, name string, owners ...string) (reference string) {
	f.Helper()
	o := f.send("POST", "/api/v1/namespaces/"+namespace+"/configmaps", `{`+metadataOf(name, owners...)+`}`, 201)
	return referTo("v1", "ConfigMap", o)
}

func (f fleet) toy(namespace, name string, owners ...string) (reference string) {
	f.Helper()
	o := f.send("POST", toysIn(namespace), `{"apiVersion":"toys.example.org/v1","kind":"Toy",`+metadataOf(name, owners...)+`,"spec":{}}`, 201)
	return referTo("toys.example.org/v1", "Toy", o)
}

func referTo(apiVersion, kind string, o gjson.Result) string {
	return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"name":%q,"uid":%q,"blockOwnerDeletion":true}`, apiVersion, kind,
		o.Get("metadata.name").Str, o.Get("metadata.uid").Str)
}
