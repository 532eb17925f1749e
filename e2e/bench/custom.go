package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/e2e/harness"
)

// customCommand measures the cost of custom resources of published definitions.
func customCommand(o *options) *cobra.Command {
	var names []string
	var writes int
	c := &cobra.Command{
		Use:   "custom",
		Short: "Start servers one after the other and measure what custom resources cost them, by 16 clients",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Clients = []int{customClients}
			if err := o.checkProtocols(); err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), "| server | custom resource | create | patch of a label | apply without a change | get |\n|---|---|---|---|---|---|\n")
			for _, name := range names {
				server, ok := startables()[name]
				if !ok || server.postgres {
					return fmt.Errorf("--servers %q: rowlock, etcd or kine can be measured", name)
				}
				if err := harness.Build(cmd.Context(), server.binaries...); err != nil {
					return err
				}
				d := &definitions{bench: &bench{options: *o, server: &Server{Name: name}}, startable: server, out: cmd.OutOrStdout()}
				if err := d.custom(cmd.Context(), writes); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&names, "servers", []string{"rowlock", "etcd"}, "rowlock, or the stores that kube-apiserver is to use: etcd, kine")
	c.Flags().IntVar(&writes, "writes", 2000, "requests of each sort")
	return c
}

// customClients is how many clients write at a time.
const customClients = 16

// customObjects are the objects, by the names of their definitions. They are those of the benchmark in process.
var customObjects = []struct{ definition, file, path string }{
	{"certificates.cert-manager.io", "certificate", "/apis/cert-manager.io/v1/namespaces/test/certificates"},
	{"applications.argoproj.io", "application", "/apis/argoproj.io/v1alpha1/namespaces/test/applications"},
	{"httproutes.gateway.networking.k8s.io", "httproute", "/apis/gateway.networking.k8s.io/v1/namespaces/test/httproutes"},
}

// custom starts a server, measures custom resources, and stops it.
func (d *definitions) custom(ctx context.Context, writes int) (err error) {
	if d.dir, err = os.MkdirTemp("", "rowlock-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.running.Kill()
	published, err := harness.Published(ctx)
	if err != nil {
		return err
	}
	if _, err := d.admin.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: []byte(`{"metadata":{"name":"test"}}`)}); err != nil {
		return err
	}
	for _, of := range customObjects {
		for _, crd := range published {
			if crd.Name != of.definition {
				continue
			}
			one := &defined{crd: crd}
			if one.body, err = json.Marshal(crd); err != nil {
				return err
			}
			if err := d.apply(ctx, one); err != nil {
				return err
			}
		}
		object, err := os.ReadFile(filepath.Join(harness.Root(), "server", "handlers", "testdata", "custom", of.file+".json"))
		if err != nil {
			return err
		}
		if err := d.customObject(ctx, of.file, of.path, object, writes); err != nil {
			return fmt.Errorf("%s: %w", of.file, err)
		}
	}
	return nil
}

func (d *definitions) customObject(ctx context.Context, kind, path string, object []byte, writes int) error {
	named := func(name string) []byte { return bytes.Replace(object, []byte("NAME"), []byte(name), 1) }
	create := func(name string) request { return request{method: http.MethodPost, path: path, body: named(name)} }
	if err := d.untilServed(ctx, create("o")); err != nil {
		return err
	}
	apply := request{method: http.MethodPatch, path: path + "/o?fieldManager=bench&force=true", contentType: "application/apply-patch+yaml", body: named("o")}
	var all []any
	for _, next := range []func(i int64) request{
		func(i int64) request { return create(fmt.Sprint("c", i)) },
		func(i int64) request {
			return request{method: http.MethodPatch, path: fmt.Sprint(path, "/c", i), contentType: "application/merge-patch+json",
				body: fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, i)}
		},
		func(int64) request { return apply },
		func(int64) request { return request{method: http.MethodGet, path: path + "/o"} },
	} {
		cpu, err := d.together(ctx, writes, next)
		if err != nil {
			return err
		}
		all = append(all, cpu.Round(time.Microsecond))
	}
	_, err := fmt.Fprintf(d.out, "| %s | %s | %s | %s | %s | %s |\n", append([]any{d.running.Name, kind}, all...)...)
	return err
}

// untilServed sends a request until the server knows its path: kube-apiserver serves it some time after the definition.
func (d *definitions) untilServed(ctx context.Context, r request) error {
	for began := time.Now(); ; {
		_, err := d.admin.do(ctx, r)
		if err == nil || time.Since(began) > time.Minute {
			return err
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// together sends requests from all clients, a quarter more before the measurement, and returns the server's CPU time for one.
func (d *definitions) together(ctx context.Context, n int, next func(i int64) request) (each time.Duration, err error) {
	clients, err := d.crew(d.Protocols[0], customClients)
	if err != nil {
		return 0, err
	}
	var sent atomic.Int64
	send := func(until int64) error {
		g, ctx := errgroup.WithContext(ctx)
		for _, c := range clients {
			g.Go(func() error {
				for {
					i := sent.Add(1)
					if i > until {
						sent.Add(-1)
						return nil
					}
					if _, err := c.do(ctx, next(i)); err != nil {
						return err
					}
				}
			})
		}
		return g.Wait()
	}
	warm := int64(n / 4)
	if err := send(warm); err != nil {
		return 0, err
	}
	before, err := d.procs.exactCPU()
	if err != nil {
		return 0, err
	}
	if err := send(warm + int64(n)); err != nil {
		return 0, err
	}
	after, err := d.procs.exactCPU()
	return (after - before) / time.Duration(n), err
}
