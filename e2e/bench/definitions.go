package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
)

// definitionsCommand measures the cost of definitions of custom resources, used and unused.
func definitionsCommand(o *options) *cobra.Command {
	var name, profiles string
	var count, cycles int
	c := &cobra.Command{
		Use:   "definitions",
		Short: "Start a server and measure what many definitions of custom resources cost, copies of published ones",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			server, ok := startables()[name]
			if !ok || server.postgres {
				return fmt.Errorf("--server %q: rowlock, etcd or kine can be measured", name)
			}
			d := &definitions{bench: &bench{options: *o, server: &Server{Name: name}}, startable: server, out: cmd.OutOrStdout(), count: count, cycles: cycles,
				profiles: profiles, progress: progress{out: cmd.ErrOrStderr()}}
			defer d.tellEnd(cmd.Context())()
			d.at("building the server")
			if err := harness.Build(cmd.Context(), server.binaries...); err != nil {
				return err
			}
			if d.dir, err = os.MkdirTemp("", "rowlock-bench-"); err != nil {
				return err
			}
			defer os.RemoveAll(d.dir)
			d.Clients = []int{1}
			if err := d.checkProtocols(); err != nil {
				return err
			}
			if err := d.start(cmd.Context()); err != nil {
				return err
			}
			defer func() {
				if err != nil {
					err = fmt.Errorf("%w\n%s", err, lastWords(d.running.Output()))
				}
				d.running.Kill() // its data is removed
			}()
			return d.measure(cmd.Context())
		},
	}
	c.Flags().StringVar(&name, "server", "rowlock", "rowlock, or the store that kube-apiserver is to use: etcd, kine")
	c.Flags().IntVar(&count, "count", 1000, "definitions")
	c.Flags().IntVar(&cycles, "cycles", 10000, "how often a definition is created and deleted")
	c.Flags().StringVar(&profiles, "heap-profiles", "", "write a profile of what the server has in memory into this `directory` with each row of memory")
	return c
}

// definitions is a run that measures definitions.
type definitions struct {
	*bench
	startable
	progress
	dir           string
	out           io.Writer
	count, cycles int
	// profiles is the directory for profiles of the server's memory; empty means none are written.
	profiles string

	running *harness.Server
	all     []*defined
	// distinct is how many of them, the first ones, have schemas of their own.
	distinct int
	// idleMemory is the anonymous memory before the first of them.
	idleMemory int64
}

// profile writes a profile of the server's memory after a garbage collection.
func (d *definitions) profile(ctx context.Context, name string) error {
	if d.profiles == "" {
		return nil
	}
	if _, err := d.admin.do(ctx, request{method: http.MethodGet, path: "/debug/pprof/heap?gc=1", accept: "*/*", keep: true}); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(d.profiles, name+".heap"), d.admin.body.Bytes(), 0o644)
}

// start starts the server, on its existing data if it ran before.
func (d *definitions) start(ctx context.Context) (err error) {
	if d.running, err = d.startable.start(ctx, d.dir, ""); err != nil {
		return err
	}
	d.procs, d.opened = d.running.PIDs(), nil
	config, err := clientcmd.BuildConfigFromFlags("", d.running.Kubeconfig)
	if err != nil {
		return err
	}
	return d.prepare(ctx, config)
}

func (d *definitions) row(what, format string, args ...any) {
	fmt.Fprintf(d.out, "| %s | %s |\n", what, fmt.Sprintf(format, args...))
}

// rest waits until the server has returned unneeded memory: it does so after some seconds, and drops compiled programs later.
func (d *definitions) rest(ctx context.Context) (anonymous int64, err error) {
	if err := pause(ctx, 8*time.Second); err != nil {
		return 0, err
	}
	return d.procs.anonymous()
}

func (d *definitions) measure(ctx context.Context) (err error) {
	d.at("reading published definitions")
	published, err := harness.Published(ctx)
	if err != nil {
		return err
	}
	d.distinct = min(len(published), d.count)
	for i := range d.count + fresh {
		one, err := copyOf(published[i%len(published)], i/len(published))
		if err != nil {
			return err
		}
		d.all = append(d.all, one)
	}
	if d.idleMemory, err = d.rest(ctx); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "\n%s, %d definitions, copies of %d\n\n| what | |\n|---|---|\n", d.running.Name, d.count, len(published))
	d.row("anonymous memory before the first", "%.1f MiB", inMiB(d.idleMemory))
	for _, step := range []struct {
		what string
		do   func(context.Context) error
	}{
		{fmt.Sprintf("installing %d definitions", d.count), d.install}, {"resting", d.memoryUnused}, {"applying them again", d.applyAgain},
		{"reading documents after changes", d.documents}, {"reading OpenAPI v2", d.documentV2}, {"creating the first resources of new definitions", d.first},
		{"creating a resource of each", d.use}, {"restarting", d.restart}, {fmt.Sprintf("creating and deleting a definition %d times", d.cycles), d.cycle},
	} {
		d.at(step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// fresh is the number of definitions that are installed for the measurements right after installation.
const fresh = 100

// install installs all definitions, those with new schemas first.
func (d *definitions) install(ctx context.Context) error {
	all := d.all[:d.count]
	alone, err := validationAlone(all[:d.distinct])
	if err != nil {
		return err
	}
	d.row("ValidateCustomResourceDefinition alone, each", "%s", short(alone))
	for _, part := range []struct {
		name string
		of   []*defined
	}{{"install, schema seen first, CPU", all[:d.distinct]}, {"install, schema seen before, CPU", all[d.distinct:]}} {
		if len(part.of) == 0 {
			continue
		}
		cpu, took, err := d.each(ctx, part.of, d.apply)
		if err != nil {
			return err
		}
		d.row(part.name, "%s; %s a request", short(cpu), short(took))
	}
	return nil
}

// each runs do for the definitions, one after the other, and returns the server's CPU time and the elapsed time for one.
func (d *definitions) each(ctx context.Context, all []*defined, do func(context.Context, *defined) error) (cpu, took time.Duration, err error) {
	before, err := d.procs.exactCPU()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	for _, one := range all {
		if err := do(ctx, one); err != nil {
			return 0, 0, fmt.Errorf("%s: %w", one.crd.Name, err)
		}
	}
	took = time.Since(began)
	after, err := d.procs.exactCPU()
	n := time.Duration(len(all))
	return (after - before) / n, took / n, err
}

func (d *definitions) apply(ctx context.Context, one *defined) error {
	return d.applyBody(ctx, one, one.body)
}

func (d *definitions) applyBody(ctx context.Context, one *defined, body []byte) error {
	_, err := d.admin.do(ctx, request{method: http.MethodPatch, contentType: "application/apply-patch+yaml", body: body,
		path: definitionsPath + "/" + one.crd.Name + "?fieldManager=bench&force=true"})
	return err
}

const definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

func (d *definitions) memoryUnused(ctx context.Context) error {
	now, err := d.rest(ctx)
	if err != nil {
		return err
	}
	d.row("anonymous memory, none in use", "%.1f MiB: %.1f KiB each", inMiB(now), inKiB(now-d.idleMemory)/float64(d.count))
	return d.profile(ctx, "unused")
}

func (d *definitions) applyAgain(ctx context.Context) error {
	for _, time := range []string{"the first time", "from then on"} {
		cpu, took, err := d.each(ctx, d.all[:min(d.count, 200)], d.apply)
		if err != nil {
			return err
		}
		d.row("apply without change, "+time+", CPU", "%s; %s a request", short(cpu), short(took))
	}
	return nil
}

func inMiB(n int64) float64 { return float64(n) / (1 << 20) }
func inKiB(n int64) float64 { return float64(n) / (1 << 10) }

// short is a duration in three digits or so.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}
