package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
)

// gate decrypts rows up to a number, at which it waits.
type gate struct {
	value.Transformer
	rows, at      int
	reached, open chan struct{}
}

func (g *gate) TransformerForResource(schema.GroupResource) value.Transformer { return g }

func (g *gate) TransformFromStorage(ctx context.Context, data []byte, about value.Context) ([]byte, bool, error) {
	if g.rows++; g.rows == g.at {
		close(g.reached)
		<-g.open
	}
	return g.Transformer.TransformFromStorage(ctx, data, about)
}

// While objects are read, the progress says how many of about how many, and it restarts when they have to be read
// again.
func TestProgressOfLoading(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // one reads, part after part
	s := newSQLiteHarness(t).store
	for i := range 40 {
		mustCommit(t, s, createMap(t, fmt.Sprint("m", i)))
	}
	p := &Progress{}
	s.options.Progress, s.db.objects.unit = p, 10
	wants := func(when, want string) {
		t.Helper()
		if err := p.Objects(); fmt.Sprint(err) != want {
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
	wants("before", "0 objects read")
	for range 2 {
		g := &gate{Transformer: identity.NewEncryptCheckTransformer(), at: 25, reached: make(chan struct{}), open: make(chan struct{})}
		s.db.sealer = &sealer{transformers: g}
		loaded := make(chan error)
		go func() { loaded <- s.load(context.Background()) }()
		<-g.reached
		// Two of four parts are done, with nine rows and ten.
		wants("in between", "25 of about 38 objects read")
		close(g.open)
		if err := <-loaded; err != nil {
			t.Fatal(err)
		}
		wants("at the end", "<nil>")
		p.loaded.Store(false)
	}
	s.db.sealer = s.sealer
}

// Begin is called before the steps that take long, and not if another process has the file.
func TestBegin(t *testing.T) {
	begun := 0
	o := Options{URL: sqliteScheme + filepath.Join(t.TempDir(), "a.db"), Logger: slog.New(slog.DiscardHandler), Progress: &Progress{}}
	o.Begin = func() error {
		begun++
		return o.Progress.Database()
	}
	if _, err := Open(t.Context(), o); err == nil || begun != 1 {
		t.Errorf("the database is said to be usable before it was opened, or an error of Begin was lost: %v; begun %d times", err, begun)
	}
	o.Begin = func() error { begun++; return nil }
	s := mustOpen(t, o)
	defer s.Close()
	if err := errors.Join(o.Progress.Database(), o.Progress.Objects()); err != nil || begun != 2 {
		t.Errorf("opened: %v; begun %d times", err, begun)
	}
	if other, err := Open(t.Context(), o); err == nil || begun != 2 {
		t.Errorf("begun %d times, with another process: %v, %v", begun, other, err)
	}
}

// A database that a start waits for is not usable meanwhile, and is usable again afterwards.
func TestProgressOfWaiting(t *testing.T) {
	p := &Progress{}
	o := Options{URL: "postgres://nobody@127.0.0.1:1/x", AwaitTimeout: time.Hour, Progress: p}
	if err := o.complete(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p.usable.Store(true)
	_ = o.await(ctx, func() error { cancel(); return context.DeadlineExceeded })
	if p.Database() == nil {
		t.Error("usable after a failure")
	}
	if err := o.await(t.Context(), func() error { return nil }); err != nil || p.Database() != nil {
		t.Errorf("%v, %v", err, p.Database())
	}
}
