package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// largeCommand measures lists of very many pods: the cost of a page at any position, and the server's additional memory while it writes a whole list.
func largeCommand(o *options) *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:     "large",
		Short:   "Measure lists of very many pods of a server that is running already",
		Example: "  bench large --pods 100000 --kubeconfig admin.kubeconfig --pid $(pidof mine)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return large(cmd.Context(), t, *o, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&t.Kubeconfig, "kubeconfig", "", "address and credentials (required)")
	c.Flags().IntSliceVar((*[]int)(&t.PIDs), "pid", nil, "its processes on this machine, for CPU and memory (required)")
	_ = c.MarkFlagRequired("kubeconfig")
	_ = c.MarkFlagRequired("pid")
	return c
}

func large(ctx context.Context, t target, o options, out io.Writer) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	o.Clients, o.Watchers = []int{fillClients}, 0
	if err := o.checkProtocols(); err != nil {
		return err
	}
	b := &bench{options: o, procs: t.PIDs, server: &Server{Name: "large"}}
	if err := b.prepare(ctx, config); err != nil {
		return err
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.clean(context.WithoutCancel(ctx)))
	}()
	if err := b.largePages(ctx, out); err != nil {
		return err
	}
	return b.largeLists(ctx, out)
}

// largePages compares the first pages of a list with its last ones, with and without concurrent writes.
func (b *bench) largePages(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "| pages of %d, of %d pods | CPU of the first tenth | CPU of the last tenth |\n|---|---|---|\n", pageSize, b.Pods)
	for _, row := range []struct{ name, query string }{
		{"one after another", ""},
		{"label selector 1 in 10", "&labelSelector=" + url.QueryEscape(groupLabel+"=3")},
	} {
		first, last, err := b.pageCosts(ctx, row.query)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", row.name, first, last)
	}
	writers, err := b.crew(b.Protocols[0], 4)
	if err != nil {
		return err
	}
	writing, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan struct{})
	go func() {
		l := load{clients: writers, duration: time.Hour}
		_, _ = l.run(writing, nil, b.patch(4)) // until it is interrupted
		close(done)
	}()
	alone := time.Now()
	began, err := b.procs.cpu()
	if err != nil {
		return err
	}
	if err := pause(ctx, 5*time.Second); err != nil {
		return err
	}
	ended, err := b.procs.cpu()
	if err != nil {
		return err
	}
	share := (ended - began).Seconds() / time.Since(alone).Seconds()
	first, last, err := b.pageTimes(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| while 4 clients write (%.2f cores): time, not CPU | %s | %s |\n\n", share, first, last)
	stop()
	<-done
	return nil
}

// eachPage goes through a list and calls visit after every page.
func (b *bench) eachPage(ctx context.Context, query string, visit func()) error {
	c, token := b.admin, ""
	for {
		path := fmt.Sprintf("%s?limit=%d&continue=%s%s", podsPath, pageSize, url.QueryEscape(token), query)
		if _, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true}); err != nil {
			return err
		}
		visit()
		if token = continueOf(c.body.Bytes()); token == "" {
			return nil
		}
	}
}

// pageRounds is how often a list is read: CPU time is counted in hundredths of a second.
const pageRounds = 5

// pageCosts returns the cost of a page in the first and in the last tenth of a list.
func (b *bench) pageCosts(ctx context.Context, query string) (first, last time.Duration, err error) {
	tenth := 0
	for range pageRounds {
		var at []time.Duration
		var failed error
		err := b.eachPage(ctx, query, func() {
			cpu, err := b.procs.cpu()
			at, failed = append(at, cpu), errors.Join(failed, err)
		})
		if err = errors.Join(err, failed); err != nil {
			return 0, 0, err
		}
		tenth = min(max(1, len(at)/10), len(at)-1)
		first += at[tenth] - at[0]
		last += at[len(at)-1] - at[len(at)-1-tenth]
	}
	pages := time.Duration(max(1, pageRounds*tenth))
	return (first / pages).Round(time.Microsecond), (last / pages).Round(time.Microsecond), nil
}

// pageTimes is pageCosts in elapsed time.
func (b *bench) pageTimes(ctx context.Context) (first, last time.Duration, err error) {
	var at []time.Time
	if err := b.eachPage(ctx, "", func() { at = append(at, time.Now()) }); err != nil {
		return 0, 0, err
	}
	tenth := max(1, len(at)/10)
	first = at[tenth].Sub(at[0]) / time.Duration(tenth)
	last = at[len(at)-1].Sub(at[len(at)-1-tenth]) / time.Duration(tenth)
	return first.Round(time.Microsecond), last.Round(time.Microsecond), nil
}

// largeLists measures whole lists, each twice: the first one may build data that the second reuses.
func (b *bench) largeLists(ctx context.Context, out io.Writer) error {
	fmt.Fprintf(out, "| whole list of %d pods | time | CPU | size | resident before | added at most |\n|---|---|---|---|---|---|\n", b.Pods)
	for _, row := range []struct {
		name string
		r    request
		pace time.Duration // after every piece of 64 KiB
	}{
		{"JSON", request{}, 0},
		{"JSON, gzip", request{encoding: "gzip"}, 0},
		{"JSON, read slowly", request{}, time.Millisecond},
		{"JSON, indented", request{accept: "application/json;pretty=1"}, 0},
		{"Table", request{accept: tableType}, 0},
		{"Table, gzip", request{accept: tableType, encoding: "gzip"}, 0},
		{"metadata", request{accept: "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}, 0},
		{"protobuf", request{accept: protobufType}, 0},
		{"protobuf, again", request{accept: protobufType}, 0},
		{"protobuf, gzip", request{accept: protobufType, encoding: "gzip"}, 0},
	} {
		b.begin(row.name)
		if err := b.rest(ctx); err != nil {
			return err
		}
		row.r.method, row.r.path = http.MethodGet, podsPath
		if err := b.largeList(ctx, out, row.name, row.r, row.pace); err != nil {
			return fmt.Errorf("%s: %w", row.name, err)
		}
	}
	return nil
}

// restRounds limits the number of rest's checks.
const restRounds = 20

// rest waits until the server's memory is stable: remains of a burst would hide the memory that a list adds.
func (b *bench) rest(ctx context.Context) error {
	before := int64(0)
	for range restRounds {
		now, err := b.procs.resident()
		if err != nil {
			return err
		}
		if max(now, before)-min(now, before) < 1<<20 {
			return nil
		}
		before = now
		if err := pause(ctx, b.Idle); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) largeList(ctx context.Context, out io.Writer, name string, r request, pace time.Duration) error {
	before, err := b.procs.resident()
	if err != nil {
		return err
	}
	cpu, err := b.procs.cpu()
	if err != nil {
		return err
	}
	peaks := make(chan int64)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		var peak int64
		for watching.Err() == nil {
			if now, err := b.procs.resident(); err == nil {
				peak = max(peak, now)
			}
			_ = pause(watching, 2*time.Millisecond)
		}
		peaks <- peak
	}()
	began := time.Now()
	size, err := b.readPaced(ctx, r, pace)
	elapsed := time.Since(began)
	stop()
	peak := <-peaks
	if err != nil {
		return err
	}
	after, err := b.procs.cpu()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| %s | %.2f s | %.2f s | %.0f MB | %d MiB | %d MiB |\n", name, elapsed.Seconds(), (after - cpu).Seconds(),
		float64(size)/1e6, before>>20, (peak-before)>>20)
	return nil
}

// readPaced sends a request and reads the answer with a pause after every piece.
func (b *bench) readPaced(ctx context.Context, r request, pace time.Duration) (int64, error) {
	response, err := b.admin.open(ctx, r)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	var total int64
	piece := make([]byte, 64<<10)
	for {
		n, err := io.ReadFull(response.Body, piece)
		total += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
		if pace > 0 {
			if err := pause(ctx, pace); err != nil {
				return total, err
			}
		}
	}
}
