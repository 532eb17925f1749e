package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
)

// dayOptions select the part of a day to write, and the time for it.
type dayOptions struct {
	cluster    int
	day        time.Duration
	within     time.Duration
	oldBackups bool // backups are made meanwhile, one after the other
	check      bool
}

// speed is how much faster than real time the day goes by.
func (d dayOptions) speed() float64 { return d.day.Seconds() / d.within.Seconds() }

// scaled converts a time of a day to the compressed day; it is never shorter than the store's resolution.
func (d dayOptions) scaled(t time.Duration) time.Duration {
	return max(time.Duration(float64(t)/d.speed()), 100*time.Millisecond)
}

// dayCommand measures the files that a day of a small cluster leaves in a Rowlock, and the delays of writers while it goes by.
func dayCommand(o *options) *cobra.Command {
	var d dayOptions
	c := &cobra.Command{
		Use:   "day",
		Short: "Measure Rowlock's files, on SQLite, and what writers wait for during a day of a cluster, compressed into minutes",
		Long: "Measure Rowlock's files, on SQLite, and what writers wait for during a day of a cluster, compressed into minutes.\n\n" +
			"What has a lifetime (events, an hour; history, five minutes) has one that is as much shorter as the day is.",
		Example: "  bench day --day 24h --within 20m --check",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if d.day <= 0 || d.within <= 0 || d.cluster <= 0 {
				return errors.New("--day, --within and --cluster have to be positive")
			}
			return day(cmd.Context(), *o, d, cmd.OutOrStdout())
		},
	}
	c.Flags().IntVar(&d.cluster, "cluster", 200, "nodes of the cluster")
	c.Flags().DurationVar(&d.day, "day", 24*time.Hour, "how much of a day is written")
	c.Flags().DurationVar(&d.within, "within", 20*time.Minute, "how long that is to take; a server that is slower takes longer")
	c.Flags().BoolVar(&d.oldBackups, "backups", false, "backups are made meanwhile, one after the other, each of which reads one state of the database")
	c.Flags().BoolVar(&d.check, "check", false, "end with an error where a goal is not reached")
	return c
}

func day(ctx context.Context, o options, d dayOptions, out io.Writer) (err error) {
	if err := errors.Join(o.checkProtocols(), harness.Build(ctx, "rowlock")); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowlock-day-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	server, err := harness.StartRowlock(ctx, harness.RowlockOptions{DataDir: dir, Args: []string{
		"--history-age", d.scaled(5 * time.Minute).String(), "--event-ttl", d.scaled(time.Hour).String()}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
	if err != nil {
		return err
	}
	w := &dayWork{dayOptions: d, dir: dir, bench: &bench{options: o, procs: server.PIDs(), server: &Server{Name: "day"}}}
	if err := w.prepare(ctx, config); err != nil {
		return err
	}
	defer w.hangUp()
	if err := w.makeCluster(ctx); err != nil {
		return err
	}
	r, err := w.run(ctx)
	if err != nil {
		return err
	}
	r.print(out)
	if missed := r.missed(); d.check && len(missed) > 0 {
		return fmt.Errorf("goals that are not reached: %v", missed)
	}
	return nil
}
