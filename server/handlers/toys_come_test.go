package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/servertest"
	"github.com/rowlock/rowlock/sqlstore"
)

// While a kind is added, changed and removed, every request is answered as if it existed or as if it did not, every watch ends, and nothing is left
// behind.
func TestToysComeAndGo(t *testing.T) {
	servertest.OnEveryDatabase(t, func(t *testing.T, stores []*sqlstore.Store) { toysComeAndGo(t, newAPIs(t, stores), stores) })
}

func toysComeAndGo(t *testing.T, a *api, stores []*sqlstore.Store) {
	s := a.listen()
	const rounds, checked = 10_000, 1000
	var alive atomic.Int64
	a.serveToys(toyVersions...)
	clients := a.playWithToys(s)
	end := play(clients) // makes what is made on first use
	defer func() {
		a.stopServingToys() // the watch ends
		end()
	}()
	awaitAll(t, clients)
	a.stopServingToys()
	end()
	before := memoryOf(s, stores)
	end = play(clients)
	gvs := []schema.GroupVersion{{Group: "toys.example.org", Version: "v1"}, {Group: "toys.example.org", Version: "v2"}}
	for round := range rounds {
		a.edit(func(e *resources.Edit) {
			for i, v := range toyVersions {
				v.Form = fmt.Sprint(round / 2) // every other change has no effect on the rendering
				e.SetType(gvs[i], 1000, 100, mortal(t, v, &alive))
			}
		})
		if round%checked == 0 {
			awaitAll(t, clients)
		}
		switch {
		case round%3 == 2:
			a.stopServingToys()
		case round%3 == 1:
			a.edit(func(e *resources.Edit) { e.RemoveType(gvs[1].WithResource("toys")) })
		}
	}
	a.stopServingToys()
	end()
	eventually(t, func() string {
		after := memoryOf(s, stores)
		switch n := alive.Load(); {
		case n > 0:
			return fmt.Sprintf("%d types are kept after they went", n)
		case after.goroutines > before.goroutines+mostGoroutines:
			return fmt.Sprintf("there are %d goroutines, and there were %d", after.goroutines, before.goroutines)
		case after.heap > before.heap+mostHeap:
			return fmt.Sprintf("the heap has %d bytes, and had %d", after.heap, before.heap)
		}
		return ""
	})
}

// What may be left is far less than a goroutine and a KiB per change: connections and caches are not the same before and after.
const mostGoroutines, mostHeap = 100, 8 << 20

// mortal makes a type of a version of the kind, which counts as alive until it is garbage.
func mortal(t *testing.T, v toyVersion, alive *atomic.Int64) *resources.Type {
	toy, err := v.Type()
	if err != nil {
		t.Fatal(err)
	}
	alive.Add(1)
	runtime.AddCleanup(toy, func(*atomic.Int64) { alive.Add(-1) }, alive)
	return toy
}

// eventually waits until a problem, if there is any, is over.
func eventually(t *testing.T, problem func() string) {
	t.Helper()
	for waited := time.Now(); ; time.Sleep(time.Millisecond) {
		is := problem()
		if is == "" {
			return
		}
		if time.Since(waited) > patience {
			t.Fatal(is)
		}
	}
}

// memory is what is in use, without what a resting server drops.
type memory struct {
	goroutines int
	heap       uint64
}

func memoryOf(s *httptest.Server, stores []*sqlstore.Store) memory {
	s.CloseClientConnections()
	s.Client().CloseIdleConnections()
	for _, store := range stores {
		store.DefragmentHeap(true, func(int) bool { return true })
	}
	runtime.GC() // a cleanup runs some time after the collection of its object
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{runtime.NumGoroutine(), m.HeapAlloc}
}

// toyClient is a client that uses the kind again and again.
type toyClient struct {
	name string
	// use sends a request, the nth one, and calls served once it knows that the kind existed.
	use func(n int, served func())
	// successes counts these; seen is the number at the last check.
	successes atomic.Int64
	seen      int64
}

// awaitAll waits until each client has had another success since the last check.
func awaitAll(t *testing.T, clients []*toyClient) {
	t.Helper()
	for _, c := range clients {
		eventually(t, func() string {
			if c.successes.Load() > c.seen || t.Failed() {
				return ""
			}
			return c.name + ": no success among many changes"
		})
		c.seen = c.successes.Load()
	}
}

// play runs all clients, some of them in turn, until they are told to end.
func play(clients []*toyClient) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for some := range slices.Chunk(clients, 4) {
		all.Go(func() {
			for n := 0; ; n++ {
				for _, c := range some {
					select {
					case <-stop:
						return
					default:
					}
					c.use(n, func() { c.successes.Add(1) })
				}
			}
		})
	}
	return sync.OnceFunc(func() { close(stop); all.Wait() })
}

// playWithToys returns a client for each verb and representation; the last one, the watch, runs alone.
func (a *api) playWithToys(s *httptest.Server) []*toyClient {
	client := func(method string, request func(n int) (path, body string), header says, codes ...int) *toyClient {
		path, _ := request(0)
		return &toyClient{name: method + " " + path + fmt.Sprint(header), use: func(n int, served func()) {
			path, body := request(n)
			if a.tolerate(method, path, body, header, append(codes, 404)...).Code < 300 {
				served()
			}
		}}
	}
	at := func(path string) func(int) (string, string) { return func(int) (string, string) { return path, "" } }
	named := func(list, more, body string) func(int) (string, string) {
		return func(n int) (string, string) {
			name := fmt.Sprint("t", n%5)
			return list + "/" + name + more, strings.NewReplacer("NAME", name, "N", fmt.Sprint(n)).Replace(body)
		}
	}
	create := func(n int) (string, string) { return toys, toy(fmt.Sprint("t", n%5), `{"color":"red"}`) }
	as := func(accept string) says { return says{"Accept": accept} }
	return []*toyClient{
		client("POST", create, nil, 201, 409),
		client("POST", create, says{"Content-Type": "application/yaml", "Accept": "application/yaml"}, 201, 409),
		client("PATCH", named(toysAsV2, "?fieldManager=m&force=true", `{"apiVersion":"toys.example.org/v2","kind":"Toy","metadata":{"name":"NAME"},"spec":{"paint":"N"}}`), asApply, 200, 201, 409),
		client("PATCH", named(toys, "", `{"spec":{"tags":["N"]}}`), asMergePatch, 200, 409),
		client("PATCH", named(toysAsV2, "", `[{"op":"add","path":"/spec/paint","value":"N"}]`), asJSONPatch, 200, 409),
		client("PATCH", named(toys, "/status", `{"status":{"sold":N}}`), asMergePatch, 200, 409),
		{name: "PUT", use: func(n int, served func()) {
			path, _ := named(toys, "", "")(n)
			w := a.tolerate("GET", path, "", nil, 200, 404)
			if w.Code == 404 {
				return
			}
			body := toy(gjson.Get(w.Body.String(), "metadata.name").Str, fmt.Sprintf(`{"price":%d}`, n))
			body = strings.Replace(body, `"metadata":{`, `"metadata":{"resourceVersion":"`+gjson.Get(w.Body.String(), "metadata.resourceVersion").Str+`",`, 1)
			if a.tolerate("PUT", path, body, nil, 200, 404, 409).Code == 200 {
				served()
			}
		}},
		client("GET", named(toys, "", ""), nil, 200),
		client("GET", at(toys), as("application/yaml"), 200),
		client("GET", at(toysAsV2), as("application/json;as=Table;v=v1;g=meta.k8s.io"), 200),
		client("GET", at(toys), as("application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"), 200),
		client("DELETE", named(toys, "", ""), nil, 200, 409),
		client("DELETE", at(toysAsV2+"?limit=1"), nil, 200, 409),
		client("GET", at("/apis/toys.example.org/v1"), nil, 200),
		client("GET", at("/openapi/v3/apis/toys.example.org/v2"), nil, 200),
		{name: "the index of OpenAPI", use: func(_ int, served func()) {
			if strings.Contains(a.tolerate("GET", "/openapi/v3", "", nil, 200).Body.String(), "toys.example.org") {
				served()
			}
		}},
		{name: "watch", use: func(_ int, served func()) {
			response, err := s.Client().Get(s.URL + toys + "?watch=1")
			if err != nil {
				a.Error(err)
				return
			}
			defer response.Body.Close()
			if response.StatusCode == http.StatusOK {
				served()
			}
			_, _ = io.Copy(io.Discard, response.Body) // it ends when the kind changes or goes
		}},
	}
}
