package main

import (
	"context"
	"net/http"
	"time"
)

// rounds is how often a document is requested, each time after a change of a definition.
const rounds = 10

// documents measures discovery and OpenAPI documents, each after a change of one definition that it shows.
func (d *definitions) documents(ctx context.Context) error {
	one := d.all[0]
	const list = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	document := "/openapi/v3" + one.version(one.crd.Spec.Versions[0].Name)
	for _, of := range []struct {
		name string
		r    request
	}{
		{"aggregated discovery after a change, CPU", request{path: "/apis", accept: list}},
		{"index of OpenAPI v3 after a change, CPU", request{path: "/openapi/v3"}},
		{"a document of OpenAPI v3 after its change, CPU", request{path: document}},
	} {
		of.r.method = http.MethodGet
		var spent time.Duration
		var size int64
		for round := range rounds + 1 {
			body, err := one.touched(round)
			if err != nil {
				return err
			}
			if err := d.applyBody(ctx, one, body); err != nil {
				return err
			}
			if err := pause(ctx, 200*time.Millisecond); err != nil { // background work after the change is not the document's cost
				return err
			}
			before, err := d.procs.exactCPU()
			if err != nil {
				return err
			}
			if size, err = d.admin.do(ctx, of.r); err != nil {
				return err
			}
			after, err := d.procs.exactCPU()
			if err != nil {
				return err
			}
			if round > 0 { // the first is made from scratch
				spent += after - before
			}
		}
		d.row(of.name, "%s; %.2f MB", short(spent/rounds), float64(size)/1e6)
	}
	return nil
}

// documentV2 measures the one document of OpenAPI v2.
func (d *definitions) documentV2(ctx context.Context) error {
	anonymous, err := d.rest(ctx)
	if err != nil {
		return err
	}
	var size int64
	began, err := d.procs.exactCPU()
	if err != nil {
		return err
	}
	before, most, err := d.procs.peak(func() error {
		size, err = d.admin.do(ctx, request{method: http.MethodGet, path: "/openapi/v2"})
		return err
	})
	if err != nil {
		return err
	}
	ended, err := d.procs.exactCPU()
	if err != nil {
		return err
	}
	rested, err := d.rest(ctx)
	if err != nil {
		return err
	}
	after, err := d.procs.resident()
	if err != nil {
		return err
	}
	d.row("OpenAPI v2, CPU", "%s; %.1f MB", short(ended-began), float64(size)/1e6)
	d.row("resident memory added by it", "%.1f MiB at its peak, %.1f MiB of it after 8 s of rest, %.1f of these anonymous", inMiB(most-before), inMiB(after-before),
		inMiB(rested-anonymous))
	return nil
}
