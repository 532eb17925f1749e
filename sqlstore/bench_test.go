package sqlstore

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
)

func openBench(b *testing.B) *Store {
	b.Helper()
	return openBenchWith(b, Options{})
}

// openBenchWith opens a new file.
func openBenchWith(b *testing.B, options Options) *Store {
	b.Helper()
	options.URL, options.Logger = "sqlite://"+filepath.Join(b.TempDir(), "bench.db"), slog.New(slog.NewTextHandler(io.Discard, nil))
	s, err := Open(context.Background(), options)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

// draft returns an object of about 2 KB.
func draft(b testing.TB, namespace, name string) resources.Draft {
	return draftOf(b, namespace, name, 2048)
}

// draftOf returns an object of about so many bytes.
func draftOf(b testing.TB, namespace, name string, bytes int) resources.Draft {
	data := fmt.Sprintf(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":%q,"namespace":%q,"resourceVersion":"0",`+
		`"labels":{"app":"bench"}},"data":{"text":%q}}`, name, namespace, strings.Repeat("0123456789", (bytes-140)/10))
	d := resources.Draft{Data: []byte(data), Labels: map[string]string{"app": "bench"}}
	var ok bool
	if d.RevisionStart, d.RevisionEnd, ok = resources.RevisionSpan(d.Data); !ok {
		b.Fatal("no resourceVersion")
	}
	return d
}

func configMap(namespace, name string) resources.Key {
	return resources.Key{Resource: "configmaps", Namespace: namespace, Name: name}
}

// BenchmarkCreate has writers that each wait for a write before the next one.
func BenchmarkCreate(b *testing.B) {
	for _, writers := range []int{1, 8, 16, 64, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := openBench(b)
			d := draft(b, "default", "name")
			measured(b, writers, func(i int64) error {
				_, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
					Key: configMap("default", fmt.Sprintf("cm-%08d", i)), Draft: d})
				return err
			})
		})
	}
}

// BenchmarkUpdate has writers that each update an object of their own. It also reports how much history grows per
// update and, on SQLite, how many bytes are written to files.
func BenchmarkUpdate(b *testing.B) {
	for name, open := range map[string]func(*testing.B) *Store{"SQLite": openBench, "Postgres": openPostgresBench} {
		for _, writers := range []int{1, 16, 64} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) { benchmarkUpdate(b, open(b), writers) })
		}
	}
}

func benchmarkUpdate(b *testing.B, s *Store, writers int) {
	d := draft(b, "default", "name")
	objects := make(chan *resources.Object, writers)
	for i := range writers {
		stored, err := s.Commit(context.Background(), resources.Write{Op: resources.Create,
			Key: configMap("default", fmt.Sprintf("cm-%d", i)), Draft: d})
		if err != nil {
			b.Fatal(err)
		}
		objects <- stored[0]
	}
	history, files := s.historyBytes.Load(), counted().WChar
	measured(b, writers, func(int64) error {
		o := <-objects
		stored, err := s.Commit(context.Background(), resources.Write{Op: resources.Update, Key: o.Key,
			From: o.Revision, Draft: d})
		if err == nil {
			objects <- stored[0]
		}
		return err
	})
	b.ReportMetric(float64(s.historyBytes.Load()-history)/float64(b.N), "history-B/op")
	if s.peers == nil {
		b.ReportMetric(float64(counted().WChar-files)/float64(b.N), "written-B/op")
	}
}

// measured runs work and reports its time and its processor time, which says more on a busy machine.
func measured(b *testing.B, workers int, work func(i int64) error) {
	var before, after syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &before); err != nil {
		b.Fatal(err)
	}
	b.ResetTimer()
	inParallel(b, workers, work)
	b.StopTimer()
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &after); err != nil {
		b.Fatal(err)
	}
	used := after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano()
	b.ReportMetric(float64(used)/1000/float64(b.N), "cpu-µs/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "writes/s")
}

func inParallel(b *testing.B, workers int, work func(i int64) error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := work(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// BenchmarkUpdateRecorded is BenchmarkUpdate with an object history: cpu-µs/op shows the additional cost.
func BenchmarkUpdateRecorded(b *testing.B) {
	for name, age := range map[string]time.Duration{"with": 7 * 24 * time.Hour, "without": 0} {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/writers=%d", name, writers), func(b *testing.B) {
				s := openBenchWith(b, Options{ObjectHistory: ObjectHistory{Age: age}})
				benchmarkUpdate(b, s, writers)
				recorded, err := s.RecordedAt(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.revisions.current.Load()-recorded), "behind")
			})
		}
	}
}
