package handlers_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// A webhook that does not answer is asked as long as somebody wants to know, and no longer. What somebody else wants of it as well is asked
// again in their name.
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
		{"POST", widgetsAsV2, widgetAsV2("c", `{"other":1}`)},
		{"PATCH", widgetsAsV2 + "/a", `{"spec":{"other":2}}`},
	} {
		asked, leave, left := begin(do.method, do.path, do.body)
		leave()
		select {
		case <-asked.Done():
		case <-time.After(20 * time.Second): // others give up after 30
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

// What a webhook has said is forgotten when it is taken from the definition: nothing of it is shown then, and it is asked again when it
// is brought back. Other changes of the definition, and other certificates, ask it nothing.
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
	a.run(patch(`{"metadata":{"labels":{"a":"b"}},"spec":{"names":{"shortNames":["wi"]},"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`), shown)
	hook.wants(t, "a read after other changes", 0, 0)
	a.run(patch(`{"spec":{"conversion":{"strategy":"None","webhook":null}}}`),
		exchange{do: "GET " + widgetsAsV2 + "/a", code: 200, says: says{"spec": `{}`}},
		exchange{do: "GET " + widgetsAsV2, code: 200, says: says{"items.#.spec": `[{}]`}},
		patch(`{"spec":{"conversion":{conversion}}}`), shown)
	hook.wants(t, "a read by a webhook that was brought back", 1, 1)
}
