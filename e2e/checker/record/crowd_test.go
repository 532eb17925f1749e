package record

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// readerFunc is a reader.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(to []byte) (int, error) { return f(to) }

// TestReluctant checks that half of the reluctant watches do not read again, once they have stopped, until the history has ended, and that one of these
// shares its connection.
func TestReluctant(t *testing.T) {
	t.Parallel()
	c := &crowd{reluctant: 4}
	target := Target{Client: &http.Client{}, Watches: &http.Client{}, Reluctant: &http.Client{}}
	var kinds []string
	for i := range 5 {
		w := &history.Watch{Client: -2 - i}
		switch {
		case c.stops(w) && c.streams(&target, w) == target.Client:
			kinds = append(kinds, "stops, shares")
		case c.stops(w):
			kinds = append(kinds, "stops")
		case c.hardlyReads(w):
			kinds = append(kinds, "reads slowly")
		default:
			kinds = append(kinds, "reads")
		}
	}
	if got, want := strings.Join(kinds, "; "), "reads slowly; stops, shares; reads slowly; stops; reads"; got != want {
		t.Errorf("watches: %s; want %s", got, want)
	}
	ended := make(chan struct{})
	var over atomic.Bool
	stopped := &reluctantReader{Rand: rand.New(rand.NewPCG(1, 1)), ctx: t.Context(), ended: ended, stops: true, sips: sips, from: readerFunc(func(to []byte) (int, error) {
		if !over.Load() {
			t.Error("it reads, and the history has not ended")
		}
		return len(to), nil
	})}
	go func() {
		over.Store(true)
		close(ended)
	}()
	if n, err := stopped.Read(make([]byte, 2*sip)); n != 2*sip || err != nil {
		t.Errorf("%d bytes, %v; want all that there are", n, err)
	}
}
