package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

// The writes of a small cluster in dayHours: each of dayNodes nodes renews its lease in every step of dayStep, and does
// its other work in some of them. Sizes are those of objects as a server stores them.
const (
	dayNodes, dayHours, dayStep = 20, 1, 10 * time.Second

	dayLease, dayNode, dayPod, dayEvent = 500, 5000, 4800, 900

	dayEventTTL = 30 * time.Minute // half the real one, so that events expire within the hour
)

// dayCluster has the objects that were written last.
type dayCluster struct {
	store *Store
	mu    sync.Mutex
	last  map[resources.Key]*resources.Object
	bytes int64 // of all written objects
}

// put creates or updates an object of a size.
func (c *dayCluster) put(t *testing.T, resource, name string, size, turn int, ttl time.Duration) {
	c.mu.Lock()
	before := c.last[resources.Key{Resource: resource, Namespace: "default", Name: name}]
	c.mu.Unlock()
	w := resources.Write{Op: resources.Create, Key: resources.Key{Resource: resource, Namespace: "default", Name: name}, TTL: ttl}
	w.Draft.Data = fmt.Appendf(nil, `{"metadata":{"name":%q,"resourceVersion":"0"},"turn":%d,"text":%q}`, name, turn, strings.Repeat("0123456789", size/10))
	w.Draft.RevisionStart, w.Draft.RevisionEnd, _ = resources.RevisionSpan(w.Draft.Data)
	if before != nil {
		w.Op, w.From = resources.Update, before.Revision
	}
	c.commit(t, w)
}

func (c *dayCluster) commit(t *testing.T, w resources.Write) {
	o, err := c.store.Commit(context.Background(), w)
	if err != nil {
		t.Error(err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += int64(len(w.Draft.Data))
	if c.last[w.Key] = o[0]; w.Op == resources.Delete || w.TTL > 0 { // it is not updated any more
		delete(c.last, w.Key)
	}
}

// step does the work of a node in a step.
func (c *dayCluster) step(t *testing.T, node, step int) {
	at := func(every int) bool { return (step+node)%every == 0 }
	c.put(t, "leases.coordination.k8s.io", fmt.Sprint("node-", node), dayLease, step, 0)
	if at(30) {
		c.put(t, "nodes", fmt.Sprint("node-", node), dayNode, step, 0)
	}
	if at(6) {
		c.put(t, "pods", fmt.Sprintf("pod-%d-%d", node, step/6%10), dayPod, step, 0)
	}
	if at(12) {
		c.put(t, "events", fmt.Sprintf("event-%d-%d", node, step), dayEvent, step, dayEventTTL)
	}
	if at(180) {
		name := fmt.Sprintf("pod-%d-%d", node, step/6%10)
		key := resources.Key{Resource: "pods", Namespace: "default", Name: name}
		c.mu.Lock()
		o := c.last[key]
		c.mu.Unlock()
		c.commit(t, resources.Write{Op: resources.Delete, Key: key, From: o.Revision})
		c.put(t, "pods", name, dayPod, step, 0)
	}
}

// After an hour of a cluster's writes, the size of the files is explained by its objects and history, while watches and
// a reading transaction are open. bench day does the same through a server, for a day.
func TestDay(t *testing.T) {
	h := newSQLiteHarness(t)
	h.close(t)
	o := h.options()
	o.HistoryAge, o.LogSize, o.Synchronous = DefaultHistoryAge, DefaultLogSize, "normal"
	var err error
	if h.store, err = Open(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	c := &dayCluster{store: h.store, last: map[resources.Key]*resources.Object{}}
	written := counted().WriteBytes
	mostLog := h.dayWork(t, c)
	live := h.sum(t, "SELECT sum(length(data)) FROM objects")
	most := 3*live + h.store.historyBytes.Load()
	database, log := fileSize(t, h.path), fileSize(t, h.path+"-wal")
	if database > most {
		t.Errorf("the database has %d bytes; live objects and history explain %d", database, most)
	}
	if mostLog > 32<<20 { // however little is live: 16 MiB stay, see sqliteName, and a reader delayed the restart of the log for a while
		t.Errorf("the write-ahead log had %d bytes", mostLog)
	}
	if events, most := h.sum(t, "SELECT count(*) FROM objects WHERE resource = 'events'"), int64(dayNodes*(dayEventTTL/dayStep/12+2)); events > most {
		t.Errorf("%d events are left, of at most %d whose lifetime is not over", events, most)
	}
	t.Logf("live %d, history %d; files %d and %d, log at most %d; written to disk %.1f bytes for each of an object", live, h.store.historyBytes.Load(),
		database, log, mostLog, float64(counted().WriteBytes-written)/float64(c.bytes))
}

// dayWork lets the time pass, and returns the maximum size of the write-ahead log.
func (h *sqliteHarness) dayWork(t *testing.T, c *dayCluster) (mostLog int64) {
	const workers, held = 16, 20
	var reader *Source
	defer func() { _ = reader.Close() }()
	for step := range int(dayHours * time.Hour / dayStep) {
		switch step % held {
		case held - 1: // SQLite restarts its log only at a moment without readers
			if err := reader.Close(); err != nil {
				t.Error(err)
			}
		case 0:
			var err error
			if reader, err = OpenSource(t.Context(), Options{URL: "sqlite://" + h.path}); err != nil {
				t.Fatal(err)
			}
		}
		var all sync.WaitGroup
		for n := range workers {
			all.Go(func() {
				for node := n; node < dayNodes; node += workers {
					c.step(t, node, step)
				}
			})
		}
		all.Wait()
		h.clock.Step(dayStep)
		h.prune(t)
		mostLog = max(mostLog, fileSize(t, h.path+"-wal"))
	}
	if _, err := h.store.janitor.expire(); err != nil {
		t.Error(err)
	}
	return mostLog
}

// sum returns the single number of a query's result.
func (h *sqliteHarness) sum(t *testing.T, query string) (n int64) {
	t.Helper()
	if err := h.store.db.reads.QueryRow(query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
