package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"
)

// watchesCommand measures very many watches of one type that share few connections: their memory at rest, and the cost of an event to all of them.
func watchesCommand(o *options) *cobra.Command {
	var t target
	var connections, events int
	c := &cobra.Command{
		Use:     "watches",
		Short:   "Measure very many watches of one type of a server that is running already",
		Example: "  bench watches --idle-watches 10000 --connections 100 --kubeconfig admin.kubeconfig --pid $(pidof mine)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watches(cmd.Context(), t, *o, connections, events, cmd.OutOrStdout())
		},
	}
	c.Flags().StringVar(&t.Kubeconfig, "kubeconfig", "", "address and credentials (required)")
	c.Flags().IntSliceVar((*[]int)(&t.PIDs), "pid", nil, "its processes on this machine, for CPU and memory (required)")
	c.Flags().IntVar(&connections, "connections", 100, "connections of HTTP/2 that the watches share")
	c.Flags().IntVar(&events, "sent", 100, "events that are sent to all, one after the other")
	_ = c.MarkFlagRequired("kubeconfig")
	_ = c.MarkFlagRequired("pid")
	return c
}

func watches(ctx context.Context, t target, o options, connections, events int, out io.Writer) (err error) {
	config, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if err := o.checkProtocols(); err != nil {
		return err
	}
	b := &bench{options: o, procs: t.PIDs, server: &Server{Name: "watches"}}
	if err := b.prepare(ctx, config); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.clean(context.WithoutCancel(ctx))) }()
	crew, err := b.crewOver(http2, o.IdleWatches, connections)
	if err != nil {
		return err
	}
	if err := (load{clients: crew[:min(connections, len(crew))]}).connect(ctx); err != nil {
		return err
	}
	if err := pause(ctx, b.Idle); err != nil { // a server returns unneeded memory two seconds after the last request
		return err
	}
	before, err := b.procs.resident()
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	w := newIdleWatching(o.IdleWatches)
	defer w.wg.Wait()
	defer stop()
	result := &IdleWatches{Watches: o.IdleWatches, Failed: w.open(ctx, crew)}
	if err := pause(ctx, b.Idle); err != nil {
		return err
	}
	after, err := b.procs.resident()
	if err != nil {
		return err
	}
	result.Resident = after - before
	calls, err := b.procs.writes()
	if err != nil {
		return err
	}
	if err := b.tellAll(ctx, w, result, events); err != nil {
		return err
	}
	called, err := b.procs.writes()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "| watches, connections | failed | resident with them, each | an event to all: p50, p99 | CPU of the server, each | its system calls that write, for all |\n"+
		"|---|---|---|---|---|---|\n")
	fmt.Fprintf(out, "| %d, %d | %d | %.1f KiB | %s, %s | %.1f µs | %d |\n", result.Watches, connections, result.Failed,
		float64(result.Resident)/float64(result.Watches)/1024, result.P50.Round(time.Millisecond), result.P99.Round(time.Millisecond),
		float64(result.CPU.Nanoseconds())/1000, (called-calls)/int64(max(1, events)))
	return nil
}
