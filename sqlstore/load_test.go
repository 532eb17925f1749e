package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources"
)

// many commits objects of several types and scopes, in an order that is not that of their paths, with sets of labels
// and fields that are partly shared, empty, or need escapes.
func many(t *testing.T, s *Store, n int) {
	t.Helper()
	var writes []resources.Write
	for i := range n {
		key := resources.Key{Resource: []string{"pods", "secrets", "nodes", "pods"}[i%4], Namespace: []string{"a", "a-b", "", "a.b"}[i%4],
			Name: fmt.Sprintf("n-%x", uint32(i)*2654435761)}
		labels, fields := map[string]string{"app": fmt.Sprint(i % 10), `quo"te`: "ü\n"}, map[string]string{"spec.nodeName": fmt.Sprint(i % 7)}
		if i%5 == 0 {
			labels, fields = nil, nil
		}
		text := ""
		for k, v := range labels {
			text += fmt.Sprintf("%q:%q,", k, v)
		}
		d := resources.Draft{Labels: labels, Fields: fields, Data: fmt.Appendf(nil,
			`{"kind":"Pod","apiVersion":"v1","metadata":{"name":%q,"resourceVersion":"0","labels":{%s}},"data":%q}`,
			key.Name, strings.TrimSuffix(text, ","), strings.Repeat("x", i%300))}
		d.RevisionStart, d.RevisionEnd, _ = resources.RevisionSpan(d.Data)
		if writes = append(writes, resources.Write{Op: resources.Create, Key: key, Draft: d}); len(writes) == batchWrites {
			mustCommit(t, s, writes...)
			writes = nil
		}
	}
	mustCommit(t, s, writes...)
	for i, o := range pathsOf(s) { // leaves holes, and rows that moved
		if i%3 != 0 {
			continue
		}
		mustCommit(t, s, resources.Write{Op: resources.Delete, Key: o.Key, From: o.Revision})
	}
}

// pathsOf returns all objects in the order of a list, by type.
func pathsOf(s *Store) []*resources.Object {
	var all []*resources.Object
	for _, resource := range []string{"nodes", "pods", "secrets"} {
		s.tree(resource).objects.Scan(func(_ string, o *resources.Object) bool {
			all = append(all, o)
			return true
		})
	}
	return all
}

func describeAll(s *Store) []string {
	var all []string
	for _, o := range pathsOf(s) {
		all = append(all, fmt.Sprint(o.Key, " ", o.Revision, " ", map[string]string(o.Labels), map[string]string(o.Fields), " ", string(o.Data)))
	}
	return all
}

// checkLoadInParts checks that loading in many parts, by several readers, yields the written objects in order, in every
// tree under their paths.
func checkLoadInParts(t *testing.T, s *Store, objects int) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	many(t, s, objects)
	want := describeAll(s)
	for _, unit := range []int64{1, 37, 1 << 20} {
		s.db.objects.unit = unit
		trees, m, err := s.db.load(context.Background(), new(Store).tree, &Progress{}, func(_, _ int64) {})
		if err != nil {
			t.Fatal(err)
		}
		loaded := &Store{}
		for resource, read := range trees {
			c := &collection{}
			c.tree.Store(read)
			loaded.collections.Store(resource, c)
			last := ""
			read.objects.Scan(func(path string, o *resources.Object) bool {
				if path <= last || path != o.Path() {
					t.Errorf("%s of %s comes after %s", path, o.Key, last)
				}
				last = path
				return true
			})
		}
		if diff := cmp.Diff(want, describeAll(loaded)); diff != "" {
			t.Errorf("with parts of %d (-want +got):\n%s", unit, diff)
		}
		if m.revision != s.revisions.current.Load() {
			t.Errorf("the state is said to be at %d", m.revision)
		}
	}
}

func TestLoadInPartsSQLite(t *testing.T) { checkLoadInParts(t, newSQLiteHarness(t).store, 2000) }

func TestLoadInPartsPostgres(t *testing.T) { checkLoadInParts(t, newPostgresHarness(t).store, 2000) }

// Through a pooler, one reader reads all parts. Each part is a statement with a long way: so there are fewer objects.
func TestLoadInPartsThroughPooler(t *testing.T) {
	h := newPostgresHarnessAt(t, pooler(t).URL())
	checkLoadInParts(t, h.store, 200)
	views, err := h.store.db.views(context.Background(), 3)
	if err != nil || len(views) != 1 {
		t.Fatalf("%d views, %v", len(views), err)
	}
	if err := views[0].Rollback(); err != nil {
		t.Error(err)
	}
}

// checkViews checks that the transactions which read the parts see one state, even if there are writes while they begin
// and before they read.
func checkViews(t *testing.T, s *Store) {
	t.Helper()
	ctx, begun := context.Background(), 0
	var views []*sql.Tx
	if err := s.db.shareView(ctx, func() (*sql.Tx, error) {
		begun++
		mustCommit(t, s, createMap(t, fmt.Sprint("before-", begun)))
		tx, err := s.db.beginRead(ctx, &sql.TxOptions{ReadOnly: true, Isolation: s.db.isolation})
		views = append(views, tx)
		return tx, err
	}, 3); err != nil {
		t.Fatal(err)
	}
	mustCommit(t, s, createMap(t, "after"))
	seen := map[int]int{}
	for _, tx := range views {
		var objects int
		if err := tx.QueryRow("SELECT count(*) FROM objects").Scan(&objects); err != nil {
			t.Error(err)
		}
		seen[objects]++
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
	if len(views) != 3 || len(seen) != 1 || seen[4] > 0 {
		t.Errorf("views by how many objects they see: %v", seen)
	}
}

func TestViewsSQLite(t *testing.T) { checkViews(t, newSQLiteHarness(t).store) }

func TestViewsPostgres(t *testing.T) { checkViews(t, newPostgresHarness(t).store) }

// The parts of a table have no gaps, do not overlap, and are unbounded at the ends.
func TestParts(t *testing.T) {
	p := partition{unit: 10}
	for _, size := range []int64{0, 1, 9, 10, 11, 640, 641, 1e9} {
		parts := p.parts(size)
		if len(parts) > maxParts || parts[0].from != math.MinInt64 || parts[len(parts)-1].to != math.MaxInt64 {
			t.Errorf("%d: %d parts, from %d to %d", size, len(parts), parts[0].from, parts[len(parts)-1].to)
		}
		for i := 1; i < len(parts); i++ {
			if parts[i].from != parts[i-1].to {
				t.Errorf("%d: part %d begins at %d, the one before ends at %d", size, i, parts[i].from, parts[i-1].to)
			}
		}
	}
}

// A shared set does not keep the data of the first object in memory, and the number of sets is bounded.
func TestSharedSetsAreBounded(t *testing.T) {
	l := loader{}
	for i := range 3 * textSetsMax {
		l.labels(fmt.Appendf(nil, `{"metadata":{"labels":{"a":"%d"}}}`, i))
	}
	if n := len(l.labelSets); n > textSetsMax {
		t.Errorf("%d sets are remembered", n)
	}
	a, b := l.labels([]byte(`{"metadata":{"labels":{"a":"b"}}}`)), l.labels([]byte(`{"metadata":{"labels":{"a":"b"}},"x":1}`))
	if a["c"] = "d"; b["c"] != "d" {
		t.Error("equal sets are not shared")
	}
}

// BenchmarkLoad reads objects of so many bytes, as at a start, and reports how many bytes of memory one takes.
func BenchmarkLoad(b *testing.B) {
	for name, open := range map[string]func(*testing.B) *Store{"SQLite": openBench, "Postgres": openPostgresBench} {
		for _, bytes := range []int{1024, 2048} {
			b.Run(fmt.Sprintf("%s/bytes=%d", name, bytes), func(b *testing.B) { benchmarkLoad(b, open(b), bytes) })
		}
	}
}

func benchmarkLoad(b *testing.B, s *Store, bytes int) {
	const objects = 200000
	fillWith(b, s, objects, draftOf(b, "default", "name", bytes))
	var trees any
	before := heapBytes()
	b.ResetTimer()
	measured(b, 1, func(int64) (err error) {
		trees = nil
		trees, _, err = s.readTrees(context.Background())
		return err
	})
	b.ReportMetric(float64(heapBytes()-before)/objects, "heap-B/object")
	runtime.KeepAlive(trees)
}

func heapBytes() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A cache that is loaded again keeps the objects that are the same, and takes the others from the database, also those
// whose revision tells no difference.
func TestReloadKeepsObjects(t *testing.T) {
	h := newPostgresHarness(t)
	s := h.store
	made := mustCommit(t, s, createMap(t, "same"), createMap(t, "packed"), createMap(t, "other data"), createMap(t, "other fields"), createMap(t, "gone"))
	conn := h.connect(t)
	for _, statement := range []string{
		`UPDATE objects SET data = replace(data, 'bench', 'rebuilt') WHERE name = 'other data'`,
		`UPDATE objects SET fields = '{"a":"b"}' WHERE name = 'other fields'`,
		`DELETE FROM objects WHERE name = 'gone'`,
	} {
		if tag, err := conn.Exec(t.Context(), statement); err != nil || tag.RowsAffected() != 1 {
			t.Fatal(tag, err)
		}
	}
	s.applying.Lock()
	c := s.collection("configmaps")
	edit := c.tree.Load().edit()
	packed := made[1].Packed(slices.Clone[[]byte], func(set map[string]string) map[string]string { return set })
	edit.set(packed.Path(), packed)
	c.tree.Store(edit)
	paths := pathsInMemory(edit)
	err := s.reload(t.Context())
	s.applying.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	now := s.tree("configmaps").objects
	reloaded := pathsInMemory(s.tree("configmaps"))
	for _, o := range made[:2] {
		if path := o.Path(); reloaded[path] != paths[path] {
			t.Errorf("the path of %s is in memory twice", o.Name)
		}
	}
	for i, was := range []*resources.Object{made[0], packed, nil, nil, nil} {
		o, _ := now.Get(made[i].Path())
		if was != nil && o != was {
			t.Errorf("%s was read again", made[i].Name)
		}
		if was == nil && o == made[i] {
			t.Errorf("%s is what it was", made[i].Name)
		}
	}
	changed, _ := now.Get(made[2].Path())
	if fields, _ := now.Get(made[3].Path()); now.Len() != 4 || !strings.Contains(string(changed.Data), "rebuilt") || fields.Fields["a"] != "b" {
		t.Errorf("%d objects, %s, %v", now.Len(), changed.Data, fields.Fields)
	}
}

// pathsInMemory returns where the paths of a tree are in memory.
func pathsInMemory(of *tree) map[string]uintptr {
	all := map[string]uintptr{}
	of.objects.Scan(func(path string, _ *resources.Object) bool {
		all[path] = uintptr(reflect.ValueOf(path).UnsafePointer())
		return true
	})
	return all
}
