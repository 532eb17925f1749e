package handlers_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
)

const streamed = "?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"

// stateOf is the response to a streaming list, which is cancelled after its end.
func (a *api) stateOf(path string, header says) *httptest.ResponseRecorder {
	a.Helper()
	ctx, cancel := context.WithCancel(a.Context())
	defer cancel()
	r := httptest.NewRequest("GET", path+streamed, nil).WithContext(ctx)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	w := untilInitialEnd{httptest.NewRecorder(), cancel}
	a.ServeHTTP(w, r)
	return w.ResponseRecorder
}

// "Streaming lists" of custom resources: in the stored version, and in one that a webhook converts to.
func TestStreamingListOfCustomResources(t *testing.T) {
	onEveryDatabase(t, func(t *testing.T, a *api) {
		a.TB = t
		hook := newConverter(t)
		a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
		for i := range 3 {
			a.run(exchange{do: "POST " + widgets, body: widget(fmt.Sprint("w", i), `{"one":1}`), code: 201, keep: keptAs("last")})
		}
		for path, spec := range map[string]string{widgets: `{"one":1}`, widgetsAsV2: `{"other":1}`} {
			events := strings.Split(strings.TrimSpace(a.stateOf(path, nil).Body.String()), "\n")
			if len(events) != 4 {
				t.Fatalf("%d events: %s", len(events), events)
			}
			for i, e := range events[:3] {
				if gjson.Get(e, "type").Str != "ADDED" || gjson.Get(e, "object.metadata.name").Str != fmt.Sprint("w", i) || gjson.Get(e, "object.spec").Raw != spec {
					t.Errorf("event %d is %s, want spec %s", i, e, spec)
				}
			}
			version := strings.Split(path, "/")[3]
			want := `{"type":"BOOKMARK","object":{"apiVersion":"example.com/` + version + `","kind":"Widget","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},` +
				`"resourceVersion":"` + a.kept["last"] + `"}}}`
			if events[3] != want {
				t.Errorf("the last event is %s, want %s", events[3], want)
			}
		}
	})
}

// A streaming list of the metadata of custom resources in protobuf, as metadata informers ask for it.
func TestMetadataOfCustomResourcesInProtobuf(t *testing.T) {
	a, hook := newAPI(t), newConverter(t)
	a.run(exchange{do: "POST " + definitions, body: hook.definition("v1"), code: 201})
	for i := range 2 {
		a.run(exchange{do: "POST " + widgets, body: widget(fmt.Sprint("w", i), `{"one":1}`), code: 201, keep: keptAs("last")})
	}
	hook.down()
	for _, path := range []string{widgets, widgetsAsV2} {
		w := a.stateOf(path, partially("application/vnd.kubernetes.protobuf", ""))
		if got := w.Header().Get("Content-Type"); got != "application/vnd.kubernetes.protobuf;stream=watch" {
			t.Errorf("%s: %s", path, got)
		}
		var events []string
		frames := protobuf.LengthDelimitedFramer.NewFrameReader(io.NopCloser(w.Body))
		frame := make([]byte, 64<<10)
		for {
			n, err := frames.Read(frame)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			var event metav1.WatchEvent
			var unknown runtime.Unknown
			var shown metav1.PartialObjectMetadata
			if err := event.Unmarshal(frame[:n]); err != nil {
				t.Fatal(err)
			}
			if err := unknown.Unmarshal(event.Object.Raw[4:]); err != nil {
				t.Fatal(err)
			}
			if err := shown.Unmarshal(unknown.Raw); err != nil {
				t.Fatal(err)
			}
			events = append(events, fmt.Sprint(event.Type, " ", unknown.Kind, " ", shown.Name, " ", shown.Annotations[metav1.InitialEventsAnnotationKey]))
			if shown.ResourceVersion == "" {
				t.Errorf("an event without a resourceVersion: %v", shown)
			}
		}
		if got, want := strings.Join(events, ","), "ADDED PartialObjectMetadata w0 ,ADDED PartialObjectMetadata w1 ,BOOKMARK PartialObjectMetadata  true"; got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
