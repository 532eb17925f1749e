package handlers_test

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/rowlock/rowlock/server/h2"
)

// A call of a webhook that does not answer is cancelled when its request ends. If another request waits for the same conversion, the webhook is
// called again for that one.
func TestConversionEndsWithItsRequest(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201},
		exchange{do: "POST " + widgets, body: widget("b", `{"one":1}`), code: 201})
	hangs := make(chan context.Context)
	hook.hangs.Store(&hangs)
	begin := func(method, path, body string) (asked context.Context, leave context.CancelFunc, left chan struct{}) {
		ctx, cancel := context.WithCancel(t.Context())
		r := httptest.NewRequest(method, path, strings.NewReader(body)).WithContext(ctx)
		r.Header.Set("Content-Type", map[string]string{"POST": "application/json", "PATCH": "application/merge-patch+json"}[method])
		left = make(chan struct{})
		go func() {
			defer close(left)
			a.ServeHTTP(httptest.NewRecorder(), r)
		}()
		return <-hangs, cancel, left
	}
	for _, do := range []struct{ method, path, body string }{
		{"GET", widgetsAsV2 + "/a", ""},
		{"GET", widgetsAsV2, ""},
		{"GET", widgetsAsV2 + "/a/scale", ""},
		{"POST", widgetsAsV2, widgetAsV2("c", `{"other":1}`)},
		{"PATCH", widgetsAsV2 + "/a", `{"spec":{"other":2}}`},
	} {
		asked, leave, left := begin(do.method, do.path, do.body)
		leave()
		select {
		case <-asked.Done():
		case <-time.After(20 * time.Second): // the call itself times out after 30
			t.Fatalf("%s %s: the webhook is asked although nobody waits", do.method, do.path)
		}
		<-left
	}

	asked, leave, left := begin("GET", widgetsAsV2+"/b", "")
	answered := make(chan string)
	go func() {
		_, answer := a.request("GET", widgetsAsV2+"/b", "", nil)
		answered <- answer
	}()
	hook.hangs.Store(nil)
	leave()
	<-asked.Done()
	<-left
	if answer := <-answered; gjson.Get(answer, "spec.other").Int() != 1 {
		t.Error(answer)
	}
	a.run(exchange{do: "GET " + widgetsAsV2 + "/c", code: http.StatusNotFound})
	if _, answer := a.request("GET", widgets+"/a", "", nil); !strings.Contains(answer, `"one":1`) {
		t.Error(answer)
	}
}

// A watch ends at its timeout, even while a webhook does not answer; the call is cancelled.
func TestWatchEndsBeforeItsWebhookAnswers(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	hangs := make(chan context.Context, 9)
	hook.hangs.Store(&hangs)
	s := httptest.NewUnstartedServer(a)
	s.EnableHTTP2 = true
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": h2.Serve(s.Config)} // lets watches outlive their handlers
	s.StartTLS()
	defer s.Close()
	for name, query := range map[string]string{"shown": "", "selected": "&fieldSelector=metadata.name!%3Dx"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL+widgetsAsV2+"?watch=1&timeoutSeconds=2"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		a.run(exchange{do: "POST " + widgets, body: widget(name, `{"one":1}`), code: 201})
		asked, began := <-hangs, time.Now()
		data, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if took := time.Since(began); err != nil || len(data) > 0 || took > 20*time.Second || answer.ProtoMajor != 2 { // the call times out after 30
			t.Errorf("%s: the watch ended after %s: %v %s", name, took, err, data)
		}
		<-asked.Done()
		a.run(exchange{do: "DELETE " + widgets + "/" + name, code: 200})
	}
}

// Conversions are dropped from the cache when the webhook is removed from the definition: they are not used any more, and the webhook is called
// again once it is restored. A change of the definition's metadata causes no calls.
func TestWebhookThatIsRemoved(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	definition := definitions + "/widgets.example.com"
	patch := func(body string) exchange {
		return exchange{do: "PATCH " + definition, header: asMergePatch, body: body, code: 200}
	}
	shown := exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{"other":1}`}}
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201, keep: says{"conversion": "spec.conversion"}},
		exchange{do: "POST " + widgets, body: widget("a", `{"one":1}`), code: 201}, shown)
	hook.wants(t, "the first read", 1, 1)
	a.run(patch(`{"metadata":{"labels":{"a":"b"}}}`), shown)
	hook.wants(t, "a read after another change", 0, 0)
	a.run(patch(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`),
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{}`}},
		exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec": `[{}]`}},
		patch(`{"spec":{"conversion":{conversion}}}`), shown)
	hook.wants(t, "a read by a webhook that was brought back", 1, 1)
}
