package aggregate_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tidwall/gjson"
)

// A server has more time for its OpenAPI documents than for discovery, which does not wait for them.
func TestSlowDescriptions(t *testing.T) {
	f := newFixture(t)
	f.aggregator.AskWithin(time.Second)
	f.ext.describeV2("sweet")
	var begun atomic.Bool
	var end sync.Once
	over := make(chan struct{})
	hold := func(r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/openapi/"):
			begun.Store(true)
			select {
			case <-over:
			case <-r.Context().Done():
				t.Error("a request for a document was broken off")
			}
		case r.URL.Path == "/apis" && begun.Load():
			select {
			case <-over:
			case <-r.Context().Done(): // the time for discovery is over, and that for the document, which began before, is not
				end.Do(func() { close(over) })
			}
		}
	}
	f.ext.before.Store(&hold)
	f.register()
	for until := time.Now().Add(patience); !begun.Load() && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // no event reports it
	}
	f.touch("once")
	f.openapi("there", "/openapi/v2", described, says("sweet"))
}

// OpenAPI documents may be larger than what any server has in discovery.
func TestLargeDescriptions(t *testing.T) {
	f := newFixture(t)
	f.ext.describeV3(strings.Repeat("sweet ", 3<<20))
	f.register()
	f.condition("Passed")
	f.openapi("there", "/openapi/v3"+apples, described, func(v gjson.Result) bool { return len(v.Str) == 18<<20 })
}
