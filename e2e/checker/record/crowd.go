package record

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

const (
	// watchesOfAColor is how many watches of a crowd see the same objects.
	watchesOfAColor = 20
	// listsOf is how many lists other clients do for each list of a crowd: the verifier treats a list as a read of each object.
	listsOf = 25
	// padding is the size of the objects of a crowd in bytes, so that unread data does not fit into buffers.
	padding = 1 << 10
	// sip is the amount that a reluctant reader reads at once, and reluctance its longest pause after that. Every second one stops for good after sips.
	sip        = 4 << 10
	reluctance = 2 * time.Second
	sips       = 2
)

// crowd has the differences for thousands of clients; nil: there are few.
type crowd struct {
	colors    []string
	reluctant int // how many of the first watches see everything, and read slowly or stop
	padding   string
}

func newCrowd(o *Options) *crowd {
	if !o.Crowd {
		return nil
	}
	c := &crowd{reluctant: o.Reluctant, padding: strings.Repeat("x", padding)}
	for i := range max(2, o.Watchers/watchesOfAColor) {
		c.colors = append(c.colors, fmt.Sprint("color-", i))
	}
	return c
}

// color chooses a color.
func (r *recorder) color(random *rand.Rand) string {
	if r.crowd != nil {
		return r.crowd.colors[random.IntN(len(r.crowd.colors))]
	}
	return colors[random.IntN(len(colors))]
}

// selector is the label selector of a color.
func (r *recorder) selector(color string) string {
	if r.crowd != nil {
		return fmt.Sprintf("%s in (%s,%s)", label, color, history.EndColor)
	}
	return label + "=" + color
}

// without says that this list is skipped.
func (c *crowd) without(random *rand.Rand) bool { return c != nil && random.IntN(listsOf) > 0 }

// data is the content of an object.
func (c *crowd) data(value string) map[string]any {
	if c == nil {
		return map[string]any{"v": value}
	}
	return map[string]any{"v": value, "padding": c.padding}
}

// watch sets the selection of a watcher: everything from the start, with a reluctant reader; or one color, from a revision or with the state, after some
// time.
func (c *crowd) watch(ctx context.Context, r *recorder, o *Options, w history.Watch, random *rand.Rand) history.Watch {
	w.Bookmarks = true
	if c.hardlyReads(&w) {
		return w
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(random.Int64N(int64(o.Duration)))):
	}
	w.Select = r.color(random)
	w.Match = []string{history.Exact, history.MostRecent, history.NotOlder}[random.IntN(3)]
	w.Initial = w.Match != history.Exact
	if w.At = 0; w.Match != history.MostRecent {
		w.At = r.some(random)
	}
	return w
}

// hardlyReads says whether a watch is one of those that see everything and read slowly, or stop.
func (c *crowd) hardlyReads(w *history.Watch) bool {
	return c != nil && w.Select == "" && -2-w.Client >= 0 && -2-w.Client < c.reluctant
}

// stops says whether a watch that hardly reads does not read at all, after its beginning, until the history has ended: every second one.
func (c *crowd) stops(w *history.Watch) bool { return c.hardlyReads(w) && w.Client%2 != 0 }

// sharer is the client of the watch that stops on a connection that it shares with others.
const sharer = -2 - 1

// streams is the client that sends the request for a stream. Thousands share connections.
func (c *crowd) streams(t *Target, w *history.Watch) *http.Client {
	switch {
	case c.stops(w) && w.Client == sharer:
		return t.Client
	case c.hardlyReads(w):
		return t.Reluctant
	case c != nil && w.Select != "":
		return t.Client
	default:
		return t.Watches
	}
}

// reader returns the reader of a stream.
func (c *crowd) reader(ctx context.Context, r *recorder, w *history.Watch, body io.Reader) io.Reader {
	if !c.hardlyReads(w) {
		return body
	}
	return &reluctantReader{ctx: ctx, ended: r.ended, from: body, stops: c.stops(w), Rand: rand.New(rand.NewPCG(uint64(-w.Client), uint64(w.At)))}
}

// reluctantReader reads little, and then pauses for a while, or for good, until the history has ended.
type reluctantReader struct {
	*rand.Rand
	ctx   context.Context
	ended <-chan struct{}
	from  io.Reader
	stops bool
	sips  int
}

func (l *reluctantReader) Read(to []byte) (int, error) {
	var next <-chan time.Time // never
	if l.sips++; !l.stops || l.sips <= sips {
		next = time.After(time.Duration(l.Int64N(int64(reluctance))))
	}
	select {
	case <-l.ended:
	case <-l.ctx.Done():
	case <-next:
		to = to[:min(len(to), sip)]
	}
	return l.from.Read(to)
}
