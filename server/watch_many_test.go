package server_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
)

// Many watches that share two connections, read at any pace and reconnect, see every change once and in order, whatever wakes them.
func TestManyWatchesWithoutHandlers(t *testing.T) {
	const watches, writers, writes = 48, 4, 60
	w := newWatching(t, nil)
	from := gjson.Get(get(w.Handler(), "/api/v1/namespaces?limit=1", "master").Body.String(), "metadata.resourceVersion").String()
	clients := []*knownClient{newKnownClient(t), newKnownClient(t)}
	open := func(i int, after string) (*bufio.Reader, context.CancelFunc) {
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", "https://"+w.address+"/api/v1/namespaces?watch=true&resourceVersion="+after, nil)
		r.Header.Set("Authorization", "master")
		answer, err := clients[i%2].RoundTrip(r)
		if err != nil || answer.StatusCode != 200 {
			t.Errorf("%v, %v", answer, err)
			cancel()
			return nil, cancel
		}
		return bufio.NewReader(answer.Body), cancel
	}
	seen := make([][]int64, watches)
	var readers sync.WaitGroup
	for i := range watches {
		readers.Go(func() {
			after := from
			for len(seen[i]) < writers*writes {
				events, leave := open(i, after)
				for until := len(seen[i]) + 25; events != nil && len(seen[i]) < writers*writes && (i%4 > 0 || len(seen[i]) < until); {
					line, err := events.ReadString('\n')
					if err != nil {
						t.Errorf("watch %d has ended after %d events: %v", i, len(seen[i]), err)
						leave()
						return
					}
					if i%4 == 1 && len(seen[i])%8 == 0 {
						get(w.Handler(), "/api/v1/namespaces", "master") // it is slow
					}
					after = gjson.Get(line, "object.metadata.resourceVersion").String()
					revision, _ := strconv.ParseInt(after, 10, 64)
					seen[i] = append(seen[i], revision)
				}
				leave()
				if events == nil {
					return
				}
			}
		})
	}
	written := make([][]int64, writers)
	var writing sync.WaitGroup
	for i := range writers {
		writing.Go(func() {
			for n := range writes {
				got := ask(w.Handler(), "POST", "/api/v1/namespaces", fmt.Sprintf(`{"metadata":{"name":"n%d-%d","annotations":{"a":%q}}}`, i, n, strings.Repeat("x", 4000)))
				written[i] = append(written[i], gjson.Get(got.Body.String(), "metadata.resourceVersion").Int())
			}
		})
	}
	writing.Wait()
	readers.Wait()
	all := slices.Concat(written...)
	slices.Sort(all)
	for i := range watches {
		if !slices.Equal(seen[i], all) {
			t.Errorf("watch %d has seen %v, want %v", i, seen[i], all)
		}
	}
	w.resting(0)
	w.stop()
	if err := <-w.done; err != nil {
		t.Error(err)
	}
}
