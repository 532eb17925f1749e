package sqlstore

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/resources"
)

// partition describes how several readers read the table objects at once.
type partition struct {
	// sizeSQL returns the size of the table, in units; a part has at least unit of them.
	sizeSQL string
	unit    int64
	// rows selects the part of the table between two bounds, the second excluded.
	rows  string
	bound func(at int64) any
}

// maxParts is how many parts a table is read in at most: more than there are readers, since parts may differ in size.
const maxParts = 64

// progressRows is how many objects are read between two reports: there is at most one report every half second.
const progressRows = 200_000

// load reads every object, and returns the trees of all types with the state of the store at the same time. It may take
// as long as rows keep coming. present returns the present tree of a type, whose objects are used where they are the
// same. progress counts the objects, and report is called at intervals, by several goroutines.
func (d *database) load(ctx context.Context, present func(string) *tree, progress *Progress, report func(objects, about int64)) (map[string]*tree, meta, error) {
	bounded, cancel := context.WithCancel(ctx)
	defer cancel()
	stalled := time.AfterFunc(d.limits.rows, cancel)
	defer stalled.Stop()
	progress.begin()
	trees, m, err := d.loadAll(bounded, present, progress, func() {
		stalled.Reset(d.limits.rows)
		if n := progress.read.Add(1); n%progressRows == 0 {
			report(n, progress.about.Load())
		}
	})
	if err != nil && bounded.Err() != nil && ctx.Err() == nil {
		return nil, m, fmt.Errorf("%w: no row came in %v", resources.ErrUnavailable, d.limits.rows)
	}
	return trees, m, err
}

func (d *database) loadAll(ctx context.Context, present func(string) *tree, progress *Progress, alive func()) (_ map[string]*tree, m meta, err error) {
	readers := 1
	if runtime.GOMAXPROCS(0) > 1 {
		var size int64
		if err := d.each(ctx, func(scan func(...any) error) error { return scan(&size) }, d.objects.sizeSQL); err != nil {
			return nil, m, unavailable(err)
		}
		readers = min(len(d.objects.parts(size)), runtime.GOMAXPROCS(0), loadReaders)
	}
	views, err := d.views(ctx, readers)
	if err != nil {
		return nil, m, err
	}
	defer func() {
		for _, tx := range views {
			_ = tx.Rollback() // nothing was written
		}
		d.letGo(len(views))
	}()
	if d.unhurried != "" {
		for _, tx := range views {
			if _, err := tx.ExecContext(ctx, d.unhurried); err != nil {
				return nil, m, unavailable(err)
			}
		}
	}
	if err := views[0].QueryRowContext(ctx, d.state).Scan(&m.revision, &m.floor, &m.historyBytes, &m.at, &m.ages); err != nil {
		return nil, m, unavailable(err)
	}
	// Queried in the view: the table may have grown since the first query, but the view sees nothing beyond this size.
	var size int64
	if err := views[0].QueryRowContext(ctx, d.objects.sizeSQL).Scan(&size); err != nil {
		return nil, m, unavailable(err)
	}
	parts := d.objects.parts(size)
	var next, done atomic.Int64
	loads := make([]partLoader, len(views))
	all, ctx := errgroup.WithContext(ctx)
	for i, tx := range views {
		l := &loads[i]
		l.alive, l.sealer, l.present = alive, d.sealer, present
		all.Go(func() error {
			for p := next.Add(1) - 1; p < int64(len(parts)); p = next.Add(1) - 1 {
				from, to := d.objects.bound(parts[p].from), d.objects.bound(parts[p].to)
				if err := eachRow(tx.QueryContext(ctx, d.objects.rows, from, to))(l.take); err != nil {
					return err
				}
				progress.estimate(done.Add(1), int64(len(parts)))
			}
			l.sort()
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, m, err
	}
	return plant(loads), m, nil
}

// loadReaders is how many readers read the table at once at most.
const loadReaders = 4

// views begins at most most transactions that see the same state, and at least one. It is called on the committer's
// goroutine, or before that runs.
func (d *database) views(ctx context.Context, most int) (views []*sql.Tx, err error) {
	begin := func() (*sql.Tx, error) {
		tx, err := d.beginRead(ctx, &sql.TxOptions{ReadOnly: true, Isolation: d.isolation})
		if err == nil {
			views = append(views, tx)
		}
		return tx, err
	}
	if most <= 1 {
		_, err = begin()
	} else {
		err = d.shareView(ctx, begin, most)
	}
	if err == nil {
		return views, nil
	}
	for _, tx := range views {
		_ = tx.Rollback() // nothing was written
	}
	return nil, unavailable(err)
}

// part is the range between two bounds, the second excluded.
type part struct{ from, to int64 }

// parts cuts a table of some size into parts. The first and the last part are unbounded, so that together they cover
// the table whatever its size is.
func (p *partition) parts(size int64) []part {
	step := max(p.unit, size/maxParts+1)
	var parts []part
	for from := int64(0); from < max(size, 1); from += step {
		parts = append(parts, part{from, from + step})
	}
	parts[0].from, parts[len(parts)-1].to = math.MinInt64, math.MaxInt64
	return parts
}

// loaded is an object with its path.
type loaded struct {
	path   string
	object *resources.Object
}

// partLoader collects the objects that one of the readers finds, by type.
type partLoader struct {
	loader
	alive   func()
	present func(string) *tree
	types   map[string]*[]loaded
	last    *[]loaded // of the type of the previous row
	of      string
	was     *tree // of that type
}

// take adds a row.
func (l *partLoader) take(scan func(...any) error) error {
	l.alive()
	found, err := l.object(scan)
	if err != nil {
		return err
	}
	if resource := found.object.Resource; l.last == nil || resource != l.of {
		if l.types == nil {
			l.types = map[string]*[]loaded{}
		}
		if l.types[resource] == nil {
			l.types[resource] = &[]loaded{}
		}
		l.last, l.of, l.was = l.types[resource], resource, l.present(resource)
	}
	*l.last = append(*l.last, l.reuse(found))
	return nil
}

// reuse takes the object of the present tree, and the path of which its name is a part, if the object is the same, so that
// memory does not hold all objects twice while they are loaded again. Its revision does not tell that: a restored database may have assigned it to something else.
func (l *partLoader) reuse(found loaded) loaded {
	var path string
	var was *resources.Object
	l.was.objects.Ascend(found.path, func(first string, o *resources.Object) bool {
		path, was = first, o
		return false
	})
	if path != found.path || was == nil || was.Revision != found.object.Revision || was.Unreadable() != nil || found.object.Unreadable() != nil {
		return found
	}
	if clear := was.Unpacked(); bytes.Equal(clear.Data, found.object.Data) && maps.Equal(clear.Fields, found.object.Fields) {
		return loaded{path, was}
	}
	return found
}

func (l *partLoader) sort() {
	for _, found := range l.types {
		slices.SortFunc(*found, func(a, b loaded) int { return strings.Compare(a.path, b.path) })
	}
}

// plant builds the trees, each in the order of its paths: any other order takes several times as long.
func plant(loads []partLoader) map[string]*tree {
	sorted := map[string][][]loaded{}
	for i := range loads {
		for resource, found := range loads[i].types {
			sorted[resource] = append(sorted[resource], *found)
		}
	}
	trees := make(map[string]*tree, len(sorted))
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for resource, runs := range sorted {
		t := &tree{}
		trees[resource] = t
		all.Go(func() error {
			t.merge(runs)
			return nil
		})
	}
	_ = all.Wait() // no call returns an error
	return trees
}

// merge fills an empty tree from sorted runs.
func (t *tree) merge(runs [][]loaded) {
	for len(runs) > 0 {
		least := 0
		for i := range runs {
			if runs[i][0].path < runs[least][0].path {
				least = i
			}
		}
		first := runs[least][0]
		t.objects.Load(first.path, first.object)
		if first.object.Unreadable() != nil {
			t.unreadable++
		}
		if runs[least] = runs[least][1:]; len(runs[least]) == 0 {
			runs = slices.Delete(runs, least, least+1)
		}
	}
}
