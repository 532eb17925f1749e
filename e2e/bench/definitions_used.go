package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// first measures the first resource of a definition, created right after the definition was answered. Those that their
// schema refuses are counted apart: upstream's validator words a refusal, and compiles the whole schema for it.
func (d *definitions) first(ctx context.Context) error {
	var created, refused, routes []time.Duration
	all := slices.Clone(d.all[d.count:])
	i := slices.IndexFunc(d.all, func(one *defined) bool { return one.crd.Spec.Names.Kind == "HTTPRoute" })
	if i < 0 {
		return errors.New("there is no HTTPRoute among the definitions")
	}
	for n := range 20 {
		one, err := copyOf(d.all[i].crd, 1000+n)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	for _, one := range all {
		if err := d.apply(ctx, one); err != nil {
			return fmt.Errorf("%s: %w", one.crd.Name, err)
		}
		began := time.Now()
		err := d.create(ctx, one)
		took := time.Since(began)
		switch route := one.crd.Spec.Names.Kind == "HTTPRoute"; {
		case isStatus(err, http.StatusUnprocessableEntity) && !route:
			refused = append(refused, took)
		case err != nil:
			return fmt.Errorf("%s: %w", one.crd.Name, err)
		case route:
			routes = append(routes, took)
		default:
			created = append(created, took)
		}
	}
	for _, of := range []struct {
		name  string
		times []time.Duration
	}{{"first custom resource after the answer", created}, {"of HTTPRoute, with its CEL", routes}, {"first one, refused by its schema", refused}} {
		if len(of.times) == 0 {
			continue
		}
		slices.Sort(of.times)
		d.row(of.name, "p50 %s, p99 %s, of %d", short(of.times[len(of.times)/2]), short(of.times[len(of.times)*99/100]), len(of.times))
	}
	for _, one := range all {
		if err := d.remove(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// create creates an object of a definition. It tries again if the server serves the definition some time later.
func (d *definitions) create(ctx context.Context, one *defined) error {
	for range 1000 {
		_, err := d.admin.do(ctx, request{method: http.MethodPost, path: one.objects, body: one.object})
		if !isStatus(err, http.StatusNotFound) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return errors.New("is never served")
}

// remove deletes a definition, and waits until it is gone.
func (d *definitions) remove(ctx context.Context, one *defined) error {
	path := definitionsPath + "/" + one.crd.Name
	_, err := d.admin.do(ctx, request{method: http.MethodDelete, path: path})
	for err == nil {
		_, err = d.admin.do(ctx, request{method: http.MethodGet, path: path})
		if err == nil {
			err = pause(ctx, 2*time.Millisecond)
		}
	}
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

// use creates an object of each definition.
func (d *definitions) use(ctx context.Context) error {
	before, err := d.rest(ctx)
	if err != nil {
		return err
	}
	refused := 0
	cpu, took, err := d.each(ctx, d.all[:d.count], func(ctx context.Context, one *defined) error {
		err := d.create(ctx, one)
		if isStatus(err, http.StatusUnprocessableEntity) {
			refused++
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	during, err := d.procs.anonymous()
	if err != nil {
		return err
	}
	d.row("create one object of each, CPU", "%s; %s a request; %d refused by their schema", short(cpu), short(took), refused)
	if err := pause(ctx, 7*time.Second); err != nil {
		return err
	}
	after, err := d.procs.anonymous()
	if err != nil {
		return err
	}
	d.row("anonymous memory, all in use", "%.1f MiB at once, %.1f MiB after 7 s of rest: %.1f KiB more each", inMiB(during), inMiB(after),
		inKiB(after-before)/float64(d.count))
	return d.profile(ctx, "used")
}

// restart measures the start of a server with all definitions and objects.
func (d *definitions) restart(ctx context.Context) error {
	if d.binaries[0] != "rowlock" {
		return nil // the harness starts a peer with fresh data
	}
	if err := d.running.Stop(); err != nil {
		return err
	}
	if err := d.start(ctx); err != nil {
		return err
	}
	cpu, err := d.procs.exactCPU()
	if err != nil {
		return err
	}
	now, err := d.rest(ctx)
	if err != nil {
		return err
	}
	d.row("restart to ready", "%s, CPU %s, anonymous memory %.1f MiB", short(d.running.StartToReady), short(cpu), inMiB(now))
	return d.profile(ctx, "restarted")
}

// cycle creates and deletes a definition again and again.
func (d *definitions) cycle(ctx context.Context) error {
	one, err := copyOf(d.all[0].crd, 2000)
	if err != nil {
		return err
	}
	measure := func(n int) error {
		for range n {
			if err := d.apply(ctx, one); err != nil {
				return err
			}
			if err := d.remove(ctx, one); err != nil {
				return err
			}
		}
		return nil
	}
	if err := measure(min(100, d.cycles)); err != nil {
		return err
	}
	before, err := d.rest(ctx)
	if err != nil {
		return err
	}
	goroutinesBefore, err := d.goroutines(ctx)
	if err != nil {
		return err
	}
	if err := measure(d.cycles); err != nil {
		return err
	}
	after, err := d.rest(ctx)
	if err != nil {
		return err
	}
	goroutinesAfter, err := d.goroutines(ctx)
	if err != nil {
		return err
	}
	d.row(fmt.Sprintf("%d times created and deleted", d.cycles), "anonymous memory %.1f before and %.1f MiB after, goroutines %d and %d",
		inMiB(before), inMiB(after), goroutinesBefore, goroutinesAfter)
	return nil
}
