// Command bench measures servers of the Kubernetes API over HTTPS: how fast, how much CPU and memory, how many errors.
//
// Every server gets the same work from the same client, which is net/http without client-go, so that the client's cost is small and the same for all.
// CPU is the servers' own, read from /proc for every process of the server.
//
//	main.go      the command line
//	compare.go   starts servers one after another and measures each
//	bench.go     the order of the work
//	writes.go    create, get, get + put, patch, apply, delete
//	lists.go     list in its forms
//	informers.go many informers start at once
//	fanout.go    one event to many watchers
//	idle.go      very many watches that are idle
//	watches.go   the same, over few connections, with the cost of each
//	controllers.go   the work of controllers and nodes
//	large.go     lists of very many objects
//	scale.go     very many objects, and a restart with them
//	stream.go    small writes beside a stream of large ones
//	day*.go      a day of a cluster: its files, and the delays of writers
//	definitions*.go  the cost of definitions of custom resources
//	load.go      n clients repeat an operation for a while
//	client.go    one client
//	crew.go      clients share connections
//	account.go   a service account for the clients
//	objects.go   the objects that are written
//	proc.go      CPU and memory of processes
//	ratios.go    servers and protocols beside each other, and the goals
//	progress.go  the present step of a command, for the user
//	report.go    the results, and how they are printed
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// options are the options of every subcommand.
type options struct {
	Clients  []int
	Pods     int
	Duration time.Duration
	Watchers int
	Events   int
	Idle     time.Duration
	Protocol string
	Rows     []string
	Quick    bool
	// IdleWatches is the number of watches in the row of idle watches.
	IdleWatches int
	// ServiceAccount makes the clients use the token of a service account, in place of the administrator's credentials.
	ServiceAccount bool
	// Nodes is the number of nodes that report their state.
	Nodes int

	Protocols []protocol // of Protocol

	page, json string
}

func main() {
	// The client's garbage collector competes with the server for the same cores.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil {
		os.Exit(1)
	}
}

func command() *cobra.Command {
	var o options
	root := &cobra.Command{
		Use:           "bench",
		Short:         "Measure servers of the Kubernetes API",
		SilenceUsage:  true,
		SilenceErrors: false,
		PersistentPreRun: func(*cobra.Command, []string) {
			if o.Quick {
				o.quicken()
			}
		},
	}
	flags := root.PersistentFlags()
	flags.IntSliceVar(&o.Clients, "clients", []int{1, 16, 256, 1000}, "numbers of concurrent clients")
	flags.IntVar(&o.Pods, "pods", 5000, "pods that exist during the run")
	flags.DurationVar(&o.Duration, "duration", 6*time.Second, "how long each measurement may take")
	flags.IntVar(&o.Watchers, "watchers", 100, "watchers of the fan-out")
	flags.IntVar(&o.Events, "events", 2000, "events of the fan-out")
	flags.DurationVar(&o.Idle, "idle", 20*time.Second, "how long the idle server is observed")
	flags.StringVar(&o.Protocol, "protocol", "h2", "h2: HTTP/2, a few connections with many streams each; h1: HTTP/1.1, a connection per client; both")
	flags.StringSliceVar(&o.Rows, "rows", nil, "measure only rows whose name contains one of these, as \"list pods\" (default all)")
	flags.IntVar(&o.IdleWatches, "idle-watches", 10000, "watches that are open when one event is sent to all; over HTTP/2 only")
	flags.IntVar(&o.Nodes, "nodes", 500, "nodes whose leases and status are updated")
	flags.BoolVar(&o.ServiceAccount, "service-account", false, "the clients are a service account with a token, and not an administrator")
	flags.BoolVar(&o.Quick, "quick", false, "seconds instead of minutes; shows that it works, not how fast")
	flags.StringVar(&o.page, "page", "", "also write the report into this Markdown file, between the lines\n"+pageBegin+" and "+pageEnd)
	flags.StringVar(&o.json, "json", "", "also write the results to this file, as JSON")
	root.AddCommand(measureCommand(&o), compareCommand(&o), largeCommand(&o), watchesCommand(&o), scaleCommand(&o), streamCommand(&o), dayCommand(&o), definitionsCommand(&o), customCommand(&o), admissionCommand(&o), forceCommand(&o), reportCommand(&o))
	return root
}

// quicken makes the run small enough for a sanity check in CI.
func (o *options) quicken() {
	o.Clients, o.Pods, o.Duration = []int{1, 16}, 200, 300*time.Millisecond
	o.Watchers, o.Events, o.Idle = 10, 50, 500*time.Millisecond
	o.IdleWatches, o.Nodes = 100, 20
}

func measureCommand(o *options) *cobra.Command {
	var t target
	c := &cobra.Command{
		Use:     "measure",
		Short:   "Measure a server that is running already",
		Example: "  bench measure --name mine --kubeconfig admin.kubeconfig --pid $(pidof mine) --data-dir /var/lib/mine",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			result, err := measure(cmd.Context(), t, *o)
			if err != nil {
				return err
			}
			return o.publish([]*Server{result})
		},
	}
	c.Flags().StringVar(&t.Name, "name", "server", "what the report calls it")
	c.Flags().StringVar(&t.Kubeconfig, "kubeconfig", "", "address and credentials (required)")
	c.Flags().IntSliceVar((*[]int)(&t.PIDs), "pid", nil, "its processes on this machine, for CPU and memory")
	c.Flags().StringVar(&t.DataDir, "data-dir", "", "its data, for the space they take")
	_ = c.MarkFlagRequired("kubeconfig")
	return c
}

func compareCommand(o *options) *cobra.Command {
	var servers []string
	c := &cobra.Command{
		Use:   "compare",
		Short: "Build, start, measure and stop several servers, one after another",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			results, err := compare(cmd.Context(), servers, *o)
			if len(results) == 0 {
				return err
			}
			return errors.Join(err, o.publish(results)) // the measurements before an error took minutes
		},
	}
	c.Flags().StringSliceVar(&servers, "servers", []string{"rowlock", "etcd", "kine"},
		"rowlock or rowlock-postgres, or the store that kube-apiserver is to use: etcd, kine (SQLite), kine-postgres")
	return c
}

func reportCommand(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "report FILE...",
		Short: "Print results that were written with --json, side by side",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			var all []*Server
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				var some []*Server
				if err := json.Unmarshal(text, &some); err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
				all = append(all, some...)
			}
			return o.publish(all)
		},
	}
}

// publish prints the report and writes the requested files.
func (o *options) publish(servers []*Server) error {
	text := markdown(servers)
	fmt.Print(text)
	if o.page != "" {
		if err := updatePage(o.page, text); err != nil {
			return err
		}
	}
	if o.json != "" {
		encoded, err := json.MarshalIndent(servers, "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(o.json, append(encoded, '\n'), 0o644); err != nil {
			return err
		}
	}
	if o.Quick {
		return faultless(servers)
	}
	return nil
}

// faultless returns an error when a request failed or an event was lost. Under the load of a whole run that is a result; in a quick one it is a
// fault.
func faultless(servers []*Server) error {
	var errs []error
	for _, s := range servers {
		if s.Ended != "" {
			errs = append(errs, fmt.Errorf("%s ended by itself (%s): %s", s.Name, s.Ended, s.LastWords))
		}
		for _, r := range s.Results {
			if r.Errors > 0 || r.Ops == 0 {
				errs = append(errs, fmt.Errorf("%s, %s, %d clients: %d of %d failed: %s", s.Name, r.Row, r.Clients,
					r.Errors, r.Errors+r.Ops, r.FirstError))
			}
		}
		for _, f := range s.FanOuts {
			if f.WriteErrors+f.Lost+f.Repeated+f.Expired > 0 {
				errs = append(errs, fmt.Errorf("%s, fan-out: %+v", s.Name, *f))
			}
		}
		if w := s.IdleWatches; w != nil && w.Failed > 0 {
			errs = append(errs, fmt.Errorf("%s, idle watches: %+v", s.Name, *w))
		}
	}
	return errors.Join(errs...)
}

// The lines that enclose the report in a page.
const (
	pageBegin = "<!-- begin results -->"
	pageEnd   = "<!-- end results -->"
)

// updatePage replaces the report inside a page and leaves the rest of it as it is.
func updatePage(path, report string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(page), pageBegin)
	_, after, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return fmt.Errorf("%s has no lines %s and %s", path, pageBegin, pageEnd)
	}
	return os.WriteFile(path, []byte(before+pageBegin+"\n\n"+report+"\n"+pageEnd+after), 0o644)
}
