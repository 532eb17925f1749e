package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// streamCommand measures the delays of small writes beside a stream of large ConfigMaps at a given rate.
func streamCommand(o *options) *cobra.Command {
	var t target
	var rate int
	c := &cobra.Command{
		Use:     "stream",
		Short:   "Measure what small writes wait for beside a stream of large ones, of a server that is running already",
		Example: "  bench stream --duration 10m --rate 16 --kubeconfig admin.kubeconfig --pid $(pidof mine) --data-dir data",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return stream(cmd.Context(), t, *o, rate, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&t.Kubeconfig, "kubeconfig", "", "address and credentials (required)")
	c.Flags().IntSliceVar((*[]int)(&t.PIDs), "pid", nil, "its processes on this machine, for CPU (required)")
	c.Flags().StringVar(&t.DataDir, "data-dir", "", "its data, for the space they take (required)")
	c.Flags().IntVar(&rate, "rate", 16, "MiB of large objects a second")
	for _, flag := range []string{"kubeconfig", "pid", "data-dir"} {
		_ = c.MarkFlagRequired(flag)
	}
	return c
}

const (
	// largeMap is the size of a large ConfigMap, in bytes, largeMaps how many there are, and largeWriters how many write them.
	largeMap, largeMaps, largeWriters = 512 << 10, 32, 4
	// smallWriters write small ones meanwhile, with a pause of smallPause after each write.
	smallWriters, smallPause = 8, 20 * time.Millisecond
)

func stream(ctx context.Context, t target, o options, rate int, out io.Writer) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := o.checkProtocols(); err != nil {
		return err
	}
	b := &bench{options: o, procs: t.PIDs, server: &Server{Name: "stream"}}
	if err := b.prepare(ctx, config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.clean(context.WithoutCancel(ctx))) }()
	writing, stop := context.WithCancel(ctx)
	defer stop()
	var all sync.WaitGroup
	defer all.Wait()
	crew, err := b.crew(b.Protocols[0], largeWriters+smallWriters)
	if err != nil {
		return err
	}
	var large Result
	var failed error
	all.Go(func() { // until it is interrupted
		l := load{row: "large", clients: crew[:largeWriters], duration: 24 * time.Hour}
		large, failed = l.run(writing, nil, largeWrites(rate))
	})
	var files logFiles
	all.Go(func() { files.look(writing, t.DataDir) })
	small, err := b.measureSmall(ctx, crew[largeWriters:])
	stop()
	all.Wait()
	if err = errors.Join(err, small.failed()); err != nil {
		return err
	}
	if failed != nil && !errors.Is(failed, context.Canceled) {
		return failed
	}
	disk, err := diskUsage(t.DataDir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| large writes | small writes | p50, p99, longest | write-ahead log at most | files at the end |\n|---|---|---|---|---|\n"+
		"| %.1f MiB/s, %d failed | %d | %s, %s, %s | %d MiB | %d MiB |\n",
		float64(large.Ops)*largeMap/(1<<20)/large.Seconds, max(0, large.Errors-largeWriters), small.Ops, // without the interrupted ones
		small.P50.Round(time.Millisecond/10), small.P99.Round(time.Millisecond/10), small.longest.Round(time.Millisecond), files.most>>20, disk>>20)
	return nil
}

// largeWrites writes large ConfigMaps in turn, at a rate in MiB a second over all clients.
func largeWrites(rate int) operation {
	began := time.Now()
	text := strings.Repeat("0123456789abcdef", largeMap/16)
	return func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
		due := began.Add(time.Duration(seq) * time.Second * largeMap / time.Duration(rate<<20))
		if err := pause(ctx, time.Until(due)); err != nil {
			return 0, err
		}
		name := fmt.Sprintf("large-%d", seq%largeMaps)
		body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q},"data":{"turn":"%d","text":%q}}`, name, namespace, seq, text)
		if seq < largeMaps {
			return c.do(ctx, request{method: http.MethodPost, path: configMapsPath, body: body})
		}
		return c.do(ctx, request{method: http.MethodPut, path: configMapsPath + "/" + name, body: body})
	}
}

// smallResult is the result of the small writers.
type smallResult struct {
	Result
	longest time.Duration
}

func (r smallResult) failed() error {
	if r.Errors == 0 {
		return nil
	}
	return fmt.Errorf("%d small writes failed: %s", r.Errors, r.FirstError)
}

// measureSmall applies small ConfigMaps for a while. Pauses of the clients are not counted.
func (b *bench) measureSmall(ctx context.Context, crew []*client) (smallResult, error) {
	b.begin("small writes")
	workers := make([]worker, len(crew))
	began := time.Now()
	var all sync.WaitGroup
	for n, c := range crew {
		all.Go(func() {
			for turn := 0; time.Since(began) < b.Duration && ctx.Err() == nil; turn++ {
				workers[n].record(time.Now(), b.apply, ctx, c, n, turn, turn)
				_ = pause(ctx, smallPause)
			}
		})
	}
	all.Wait()
	var longest time.Duration
	for i := range workers {
		for _, took := range workers[i].latencies {
			longest = max(longest, took)
		}
	}
	return smallResult{summarize(load{row: "small", clients: crew}, workers, time.Since(began), 0), longest}, ctx.Err()
}

// logFiles observes the size of SQLite's write-ahead logs.
type logFiles struct{ most int64 }

func (f *logFiles) look(ctx context.Context, dir string) {
	for ctx.Err() == nil {
		files, _ := filepath.Glob(filepath.Join(dir, "*-wal")) // the pattern is right
		for _, file := range files {
			if info, err := os.Stat(file); err == nil {
				f.most = max(f.most, info.Size())
			}
		}
		_ = pause(ctx, 20*time.Millisecond)
	}
}
