package controlplane_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
)

const propagation = `{"propagationPolicy":%q}`

// Quota, garbage collection and the deletion of namespaces handle a kind that comes and goes like other kinds, and lose
// nothing while it is away.
func TestToysAmongOthers(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, f fleet) {
		for _, c := range []struct {
			name string
			test func(fleet)
		}{
			{"quota", fleet.quota}, {"owners", fleet.owners}, {"owners that are away", fleet.ownersAway},
			{"dependents that are away", fleet.dependentsAway}, {"gone while nobody looked", fleet.goneUnseen},
			{"namespaces", fleet.namespaces}, {"namespaces without", fleet.namespacesWithout}, {"all at once", fleet.allAtOnce},
		} {
			f.serve(untypedtest.Versions()...)
			t.Run(c.name, func(t *testing.T) {
				f := f
				f.T = t
				c.test(f)
			})
		}
	})
}

func (f fleet) quota() {
	ns := f.namespace("quota")
	const quota = "/api/v1/namespaces/quota/resourcequotas"
	f.send("POST", quota, `{"metadata":{"name":"q"},"spec":{"hard":{"count/toys.toys.example.org":"2"}}}`, 201)
	f.send("PATCH", quota+"/q/status", `{"status":{"hard":{"count/toys.toys.example.org":"2"},"used":{"count/toys.toys.example.org":"0"}}}`, 200)
	// Like kube-apiserver's, the plugin reads the state that this server has seen.
	f.until("its limit", resources.Key{Resource: "resourcequotas", Namespace: ns, Name: "q"}, func(o *resources.Object) bool {
		return o != nil && gjson.GetBytes(o.Data, "status.hard").Exists()
	})
	f.toy(ns, "a")
	f.toy(ns, "b")
	refused := func() {
		f.Helper()
		for range f.servers {
			answer := f.send("POST", toysIn(ns), `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"c"}}`, 403)
			if want := `toys.toys.example.org "c" is forbidden: exceeded quota: q, requested: count/toys.toys.example.org=1, ` +
				`used: count/toys.toys.example.org=2, limited: count/toys.toys.example.org=2`; answer.Get("message").Str != want {
				f.Error(answer.Raw)
			}
		}
	}
	refused()
	f.stopServing()
	f.send("POST", toysIn(ns), `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"c"}}`, 404)
	changed := untypedtest.Versions()
	changed[0].Form = "changed"
	f.serve(changed...)
	refused()
}

// owners: a toy is an owner and a dependent like any other object, in each of its versions.
func (f fleet) owners() {
	ns := f.namespace("owners")
	f.object(ns, "of-toy", f.toy(ns, "toy"))
	f.object(ns, "of-v2", strings.Replace(f.toy(ns, "toy-2"), "/v1", "/v2", 1))
	f.toy(ns, "of-map", f.object(ns, "map"))
	f.toy(ns, "of-of-toy", f.toy(ns, "of-kept-toy", f.toy(ns, "kept-toy")))
	f.stays(mapKey(ns, "of-toy"), mapKey(ns, "of-v2"), toyKey(ns, "of-map"), toyKey(ns, "of-of-toy"))
	f.send("DELETE", toysIn(ns)+"/toy", "", 200)
	f.send("DELETE", toysIn(ns)+"/toy-2", "", 200)
	f.send("DELETE", "/api/v1/namespaces/owners/configmaps/map", "", 200)
	f.gone(mapKey(ns, "of-toy"), mapKey(ns, "of-v2"), toyKey(ns, "of-map"))
	f.stays(toyKey(ns, "of-of-toy"))

	f.send("DELETE", toysIn(ns)+"/kept-toy", fmt.Sprintf(propagation, "Orphan"), 200)
	f.gone(toyKey(ns, "kept-toy"))
	f.until("an orphan", toyKey(ns, "of-kept-toy"), func(o *resources.Object) bool {
		if o == nil {
			return false
		}
		orphan := gjson.GetBytes(o.Data, "metadata.ownerReferences.#").Int() == 0
		if fields := gjson.GetBytes(o.Data, "metadata.managedFields").Raw; strings.Contains(fields, "f:ownerReferences") == orphan || !strings.Contains(fields, "f:spec") {
			f.Errorf("orphan %v: the owners of fields are %s", orphan, fields)
		}
		return orphan
	})
	f.stays(toyKey(ns, "of-kept-toy"), toyKey(ns, "of-of-toy"))

	f.send("PATCH", toysIn(ns)+"/of-of-toy", `{"metadata":{"finalizers":["example.org/stay"]}}`, 200)
	f.send("DELETE", toysIn(ns)+"/of-kept-toy", fmt.Sprintf(propagation, "Foreground"), 200)
	f.until("its deletion", toyKey(ns, "of-of-toy"), deleting)
	f.until("its deletion", toyKey(ns, "of-kept-toy"), deleting)
	f.stopServing()
	f.serve(untypedtest.Versions()...)
	f.insist("PATCH", toysIn(ns)+"/of-of-toy", `{"metadata":{"finalizers":null}}`, 200)
	f.gone(toyKey(ns, "of-of-toy"), toyKey(ns, "of-kept-toy"))
}

func deleting(o *resources.Object) bool {
	return o != nil && gjson.GetBytes(o.Data, "metadata.deletionTimestamp").Exists()
}

// ownersAway: a dependent stays while the kind of its owner is not served in the version that it names.
func (f fleet) ownersAway() {
	ns := f.namespace("owners-away")
	toy := f.toy(ns, "toy")
	f.object(ns, "of-toy", toy)
	f.object(ns, "of-v2", strings.Replace(toy, "/v1", "/v2", 1))
	f.object(ns, "of-none", strings.Replace(toy, `"uid":"`, `"uid":"x`, 1))
	f.gone(mapKey(ns, "of-none"))
	f.stopServing()
	f.object(ns, "of-none", strings.Replace(toy, `"uid":"`, `"uid":"x`, 1))
	f.stays(mapKey(ns, "of-toy"), mapKey(ns, "of-v2"), mapKey(ns, "of-none"))
	f.serve(untypedtest.Versions()[0])
	f.gone(mapKey(ns, "of-none"))
	f.stays(mapKey(ns, "of-toy"), mapKey(ns, "of-v2"))
	f.send("DELETE", toysIn(ns)+"/toy", "", 200)
	f.gone(mapKey(ns, "of-toy"))
	f.stays(mapKey(ns, "of-v2"))
	f.serve(untypedtest.Versions()...)
	f.gone(mapKey(ns, "of-v2"))
}

// dependentsAway: the deletion of owners of toys that are not served is not forgotten.
func (f fleet) dependentsAway() {
	ns := f.namespace("dependents-away")
	f.toy(ns, "of-map", f.object(ns, "map"))
	f.toy(ns, "orphan", f.object(ns, "orphaning"))
	f.toy(ns, "of-waiting", f.object(ns, "waiting"))
	f.stays()
	f.stopServing()
	for name, policy := range map[string]string{"map": "Background", "orphaning": "Orphan", "waiting": "Foreground"} {
		f.send("DELETE", "/api/v1/namespaces/dependents-away/configmaps/"+name, fmt.Sprintf(propagation, policy), 200)
	}
	f.stays(toyKey(ns, "of-map"), toyKey(ns, "orphan"), toyKey(ns, "of-waiting"))
	f.serve(untypedtest.Versions()...)
	f.gone(toyKey(ns, "of-map"), toyKey(ns, "of-waiting"), mapKey(ns, "orphaning"), mapKey(ns, "waiting"))
	f.stays(toyKey(ns, "orphan"))
}

// goneUnseen: a toy that is deleted while the leading server does not serve it is noticed when that server serves toys again.
func (f fleet) goneUnseen() {
	if len(f.servers) < 2 {
		return // no other server could delete it
	}
	for i, blind := range f.servers {
		other := f.servers[1-i]
		ns := f.namespace(fmt.Sprint("unseen-", i))
		toy := f.toy(ns, "toy")
		f.object(ns, "of-toy", toy)
		f.toy(ns, "blocking", f.object(ns, "waiting"))
		f.send("DELETE", "/api/v1/namespaces/"+ns+"/configmaps/waiting", fmt.Sprintf(propagation, "Foreground"), 200)
		f.toy(ns, "staying", f.toy(ns, "stays"))
		f.stays(mapKey(ns, "of-toy"), toyKey(ns, "staying"))
		blind.registry.RemoveGroup(untypedtest.Group)
		for _, name := range []string{"toy", "blocking"} {
			if code, answer := f.on(other, "DELETE", toysIn(ns)+"/"+name, ""); code != 200 && code != 404 {
				f.Error(answer.Raw)
			}
		}
		if err := untypedtest.Serve(blind.registry, untypedtest.Versions()...); err != nil {
			f.Fatal(err)
		}
		f.gone(mapKey(ns, "of-toy"), mapKey(ns, "waiting"))
		f.stays(toyKey(ns, "staying"))
	}
}

// namespaces: a namespace waits for its toys to be deleted, as long as they are served.
func (f fleet) namespaces() {
	ns := f.namespace("ending")
	f.toy(ns, "plain")
	f.toy(ns, "finalized")
	f.send("PATCH", toysIn(ns)+"/finalized", `{"metadata":{"finalizers":["example.org/stay"]}}`, 200)
	f.send("DELETE", "/api/v1/namespaces/"+ns, "", 200)
	f.gone(toyKey(ns, "plain"))
	remains := func(o *resources.Object) bool {
		return o != nil && gjson.GetBytes(o.Data, `status.conditions.#(type=="NamespaceContentRemaining").message`).Str ==
			"Some resources are remaining: toys.toys.example.org has 1 resource instances"
	}
	f.until("its condition", resources.Key{Resource: "namespaces", Name: ns}, remains)
	f.send("POST", toysIn(ns), `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"late"}}`, 403)
	f.serve(untypedtest.Versions()[1]) // a change of the types
	f.send("PATCH", toysIn(ns)+"/finalized", `{"metadata":{"finalizers":null}}`, 200)
	f.gone(toyKey(ns, "finalized"), resources.Key{Resource: "namespaces", Name: ns})

	// Objects of a type that is no longer served do not keep the namespace.
	ns = f.namespace("kept-ending")
	f.toy(ns, "finalized")
	f.send("PATCH", toysIn(ns)+"/finalized", `{"metadata":{"finalizers":["example.org/stay"]}}`, 200)
	f.send("DELETE", "/api/v1/namespaces/"+ns, "", 200)
	f.until("its condition", resources.Key{Resource: "namespaces", Name: ns}, remains)
	f.stopServing()
	f.gone(resources.Key{Resource: "namespaces", Name: ns})
}

// namespacesWithout: toys that were not served when their namespace was deleted are deleted when they are served again.
func (f fleet) namespacesWithout() {
	ns := f.namespace("ended")
	f.toy(ns, "toy")
	f.stopServing()
	f.send("DELETE", "/api/v1/namespaces/"+ns, "", 200)
	f.gone(resources.Key{Resource: "namespaces", Name: ns})
	f.serve(untypedtest.Versions()...)
	f.gone(toyKey(ns, "toy"))
}

// changes is how often the kind comes, changes or goes while everything uses it.
const changes = 10_000

// serveCounted is serve with a count of the types that are still in memory.
func (f fleet) serveCounted(alive *atomic.Int64, versions ...untypedtest.Version) {
	for _, k := range f.servers {
		k.registry.Edit(func(e *resources.Edit) {
			for _, v := range versions {
				toy, err := v.Type()
				if err != nil {
					f.Error(err)
					return
				}
				alive.Add(1)
				runtime.AddCleanup(toy, func(*atomic.Int64) { alive.Add(-1) }, alive)
				e.SetType(v.GV(), 1000, 100, toy)
			}
		})
	}
}

// allAtOnce: quota, owners and namespaces work while the kind comes, changes and goes all the time. The types that went are
// not kept in memory.
func (f fleet) allAtOnce() {
	const rounds = 20
	ns := f.namespace("all-at-once")
	stop, stopped := make(chan struct{}), make(chan struct{})
	var alive atomic.Int64
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			if i >= changes {
				select {
				case <-stop:
					return
				default:
				}
			}
			versions := untypedtest.Versions()
			versions[0].Form = fmt.Sprint(i / 2)
			f.serveCounted(&alive, versions...)
			if i%3 == 2 {
				f.stopServing()
			}
		}
	}()
	create := func(namespace, name string, codes ...int) gjson.Result {
		return f.insist("POST", toysIn(namespace), `{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"`+name+`"}}`, codes...)
	}
	var users sync.WaitGroup
	users.Go(func() {
		for i := range rounds {
			f.object(ns, fmt.Sprint("map-", i), referTo("toys.example.org/v1", "Toy", create(ns, fmt.Sprint("toy-", i), 201)))
			if i%2 == 0 {
				f.insist("DELETE", toysIn(ns)+fmt.Sprint("/toy-", i), "", 200)
			}
		}
	})
	users.Go(func() {
		for i := range rounds {
			ns := f.namespace(fmt.Sprint("at-once-", i))
			create(ns, "toy", 201)
			f.send("DELETE", "/api/v1/namespaces/"+ns, "", 200)
		}
	})
	users.Wait()
	for _, path := range []string{"/openapi/v3", "/openapi/v3/apis/toys.example.org/v1", "/apis"} {
		f.send("GET", path, "", 200, 404) // data derived from a catalog is released with it
	}
	close(stop)
	<-stopped
	f.serve(untypedtest.Versions()...)
	for i := range rounds {
		if i%2 == 0 {
			f.gone(mapKey(ns, fmt.Sprint("map-", i)))
		}
		ended := fmt.Sprint("at-once-", i)
		f.gone(resources.Key{Resource: "namespaces", Name: ended}, toyKey(ended, "toy"))
	}
	var kept []resources.Key
	for i := 1; i < rounds; i += 2 {
		kept = append(kept, mapKey(ns, fmt.Sprint("map-", i)), toyKey(ns, fmt.Sprint("toy-", i)))
	}
	f.stays(kept...)
	for waited := time.Now(); alive.Load() > 0; {
		if time.Since(waited) > patience {
			f.Fatalf("%d types are kept after they went", alive.Load())
		}
		runtime.GC() // a cleanup runs some time after the collection that finds its object
		runtime.Gosched()
	}
}
