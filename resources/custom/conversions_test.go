package custom

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/resources"
)

// slowConverter is a conversion webhook that answers requests for at most enough objects.
type slowConverter struct {
	*httptest.Server
	mu     sync.Mutex
	enough int
	asked  []int // the numbers of objects in the requests
	// takes is the time of a request, on a clock that no other time moves.
	takes time.Duration
	clock time.Time
}

// newSlowConverter starts a webhook that fails larger requests by fail.
func newSlowConverter(t *testing.T, enough int, fail http.HandlerFunc) *slowConverter {
	t.Helper()
	s := &slowConverter{enough: enough}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		review := gjson.ParseBytes(data)
		objects, to := review.Get("request.objects").Array(), review.Get("request.desiredAPIVersion").Str
		s.mu.Lock()
		s.asked = append(s.asked, len(objects))
		s.clock = s.clock.Add(s.takes)
		fails := len(objects) > s.enough
		s.mu.Unlock()
		if fails {
			fail(w, r)
			return
		}
		var converted []json.RawMessage
		for _, o := range objects {
			converted = append(converted, json.RawMessage(strings.Replace(o.Raw, o.Get("apiVersion").Str, to, 1)))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": map[string]any{
			"uid": review.Get("request.uid").Str, "result": map[string]any{"status": "Success"}, "convertedObjects": converted}})
	}))
	t.Cleanup(s.Close)
	return s
}

// requests returns the numbers of objects in the requests since the last call, and sets how many are enough from now on.
func (s *slowConverter) requests(enough int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked, s.enough = nil, enough
	return asked
}

func (s *slowConverter) now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clock
}

// takesNow sets the time of the requests from now on.
func (s *slowConverter) takesNow(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes = d
}

// convertedBy returns a generation of the definition of Things, which are stored in v1 and converted by a webhook.
func convertedBy(t *testing.T, s *slowConverter, l *lines, generation int64) *definition {
	t.Helper()
	version := func(name string, storage bool) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"schema":{"openAPIV3Schema":{"type":"object"}}}`, name, storage)
	}
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}))
	data := fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.x.io","uid":"u","generation":%d},`+
		`"spec":{"group":"x.io","scope":"Cluster",`+
		`"names":{"plural":"things","kind":"Thing"},"versions":[%s,%s],"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%q}}}},`+
		`"status":{"storedVersions":["v1"],"acceptedNames":{"plural":"things","kind":"Thing","listKind":"ThingList"},"conditions":[{"type":"NamesAccepted","status":"True"},{"type":"Established","status":"True"}]}}`,
		generation, version("v1", true), version("v2", false), s.URL, bundle)
	l.config = &Config{}
	d, err := newDefinition(resources.NewObject(resources.Key{Resource: Resource, Name: "things.x.io"}, resources.Draft{Data: []byte(data)}, 1), nil,
		&compiled{room: compiledRoom}, l)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// things makes stored Things that were not converted yet.
func things(n int) (all []*resources.Object) {
	for i := range n {
		data := fmt.Sprintf(`{"apiVersion":"x.io/v1","kind":"Thing","metadata":{"name":"x%d","uid":"u"}}`, i)
		all = append(all, resources.NewObject(resources.Key{Resource: "things.x.io", Name: fmt.Sprint("x", i)}, resources.Draft{Data: []byte(data)}, int64(i+2)))
	}
	return all
}

// closes answers a request by the end of its connection.
func closes(t *testing.T, linger int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		plain := conn.(*tls.Conn).NetConn()
		_ = plain.(*net.TCPConn).SetLinger(linger)
		_ = plain.Close()
	}
}

// A webhook that takes too long for a request of many objects, or closes the connection, gets fewer at a time, for each of which it has as much time.
// Where that takes several calls, each gets further than the last. A webhook that answers quickly gets more again.
func TestConversionsThatGetNoAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		fail    http.HandlerFunc
		calls   int // that are enough
	}{
		"late":   {2 * time.Second, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, 20},
		"closed": {0, closes(t, -1), 1},
		"reset":  {0, closes(t, 0), 1},
	} {
		t.Run(name, func(t *testing.T) {
			hook := newSlowConverter(t, 8, c.fail)
			hook.takesNow(resources.ConversionPatience / 3) // which is not quick
			d, all := convertedBy(t, hook, &lines{timeout: c.timeout, clock: hook.now}, 1), things(100)
			v2 := d.types.of("v2")
			ctx := t.Context()
			if c.timeout == 0 {
				ctx = due{ctx, time.Now().Add(d.lines.patience() / 2)} // long enough for requests that end at once
			}
			made, err := v2.Converted(ctx, all)
			for n := 1; err != nil && n < c.calls; n++ {
				made, err = v2.Converted(t.Context(), all)
			}
			if err != nil {
				t.Fatalf("%v, after requests for %v objects", err, hook.requests(8))
			}
			for i, data := range made {
				if v := gjson.ParseBytes(data); v.Get("apiVersion").Str != "x.io/v2" || v.Get("metadata.name").Str != all[i].Name {
					t.Fatalf("%s is converted to %s", all[i].Data, data)
				}
			}
			hook.requests(mostObjects)
			if _, err := v2.Converted(t.Context(), things(20)); err != nil {
				t.Fatal(err)
			}
			if asked := hook.requests(mostObjects); len(asked) < 3 {
				t.Errorf("the next 20 objects are in requests for %v", asked)
			}
			// Each request is quick, though all of them together are not.
			hook.takesNow(d.lines.patience() / 50)
			if _, err := v2.Converted(t.Context(), things(16*mostObjects)); err != nil {
				t.Fatal(err)
			}
			hook.requests(mostObjects)
			if _, err := v2.Converted(t.Context(), things(mostObjects)); err != nil {
				t.Fatal(err)
			}
			if asked := hook.requests(mostObjects); len(asked) != 1 {
				t.Errorf("when it has long been quick, %d objects are in requests for %v", mostObjects, asked)
			}
		})
	}
}

// A webhook without a server gets no request for fewer objects: they would have no answer either.
func TestConversionsByNobody(t *testing.T) {
	hook := newSlowConverter(t, 0, nil)
	d, all := convertedBy(t, hook, &lines{}, 1), things(20)
	hook.Close()
	_, err := d.types.of("v2").Converted(t.Context(), all)
	if err == nil || unanswered(err) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("%v", err)
	}
}

// What is known of a webhook passes to the next definition that has the same one, except that it takes one object at a time: it may have been corrected
// with a change of the spec.
func TestConversionsByTheSameWebhook(t *testing.T) {
	hook, other := newSlowConverter(t, 1, nil), newSlowConverter(t, 1, nil)
	first, written, edited := convertedBy(t, hook, &lines{}, 1), convertedBy(t, hook, &lines{}, 1), convertedBy(t, hook, &lines{}, 2)
	first.conversions.most.Store(4)
	first.conversions.single.Store(true)
	written.follows(first, false)
	edited.follows(written, false)
	moved := convertedBy(t, other, &lines{}, 3)
	moved.follows(edited, false)
	for what, c := range map[string]struct {
		d      *definition
		most   int64
		single bool
	}{"written": {written, 4, true}, "edited": {edited, 4, false}, "another webhook": {moved, mostObjects, false}} {
		if most, single := c.d.conversions.most.Load(), c.d.conversions.single.Load(); most != c.most || single != c.single {
			t.Errorf("%s: %d objects in a request, one at a time: %v", what, most, single)
		}
	}
}

// An object that gets no answer by itself does not tell how many the webhook takes.
func TestConversionOfOneThatGetsNoAnswer(t *testing.T) {
	var refused atomic.Bool
	hook := newSlowConverter(t, 0, func(w http.ResponseWriter, r *http.Request) {
		if refused.CompareAndSwap(false, true) {
			http.Error(w, "one is refused", http.StatusInternalServerError)
			return
		}
		closes(t, -1)(w, r)
	})
	d := convertedBy(t, hook, &lines{}, 1)
	_, err := d.types.of("v2").Converted(t.Context(), things(20))
	if asked := hook.requests(0); err == nil || !strings.Contains(err.Error(), ` failed: Post "`) || asked[0] != 20 || asked[1] != 1 {
		t.Errorf("%v, after requests for %v objects", err, asked)
	}
	if most := d.conversions.most.Load(); most != mostObjects {
		t.Errorf("the next requests are for %d objects", most)
	}
}

// No request begins when the time is over, not even for an object of a request that was refused.
func TestConversionsThatAreOver(t *testing.T) {
	going, over := context.WithCancel(t.Context())
	hook := newSlowConverter(t, 0, func(w http.ResponseWriter, _ *http.Request) {
		over()
		http.Error(w, "one is refused", http.StatusInternalServerError)
	})
	d := convertedBy(t, hook, &lines{}, 1)
	c, v2, all := d.conversions, d.types.of("v2"), things(20)
	_, mine := c.book(v2.ConvertedIn(), all, make([][]byte, len(all)))
	defer c.land(mine)
	err := c.request(t.Context(), going, v2, mine)
	if asked := hook.requests(0); !errors.Is(err, context.Canceled) || len(asked) != 1 || c.single.Load() {
		t.Errorf("%v, after requests for %v objects", err, asked)
	}
}

// due is a context with a deadline that it does not enforce.
type due struct {
	context.Context

	at time.Time
}

func (d due) Deadline() (time.Time, bool) { return d.at, true }

// A list has the webhook's error before its own time is over: no other request begins if it could last longer. The next list begins with fewer objects.
func TestConversionsThatCannotEndInTime(t *testing.T) {
	hook := newSlowConverter(t, 0, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	l := &lines{timeout: 2 * time.Second}
	d := convertedBy(t, hook, l, 1)
	_, err := d.types.of("v2").Converted(due{t.Context(), time.Now().Add(2 * l.timeout)}, things(6*mostObjects))
	if asked := hook.requests(0); err == nil || !strings.Contains(err.Error(), ` failed: Post "`) || !slices.Equal(asked, []int{mostObjects, mostObjects, mostObjects, mostObjects}) {
		t.Errorf("%v, after requests for %v objects", err, asked)
	}
	if most := d.conversions.most.Load(); most != mostObjects/2 {
		t.Errorf("the next requests are for %d objects", most)
	}
}
