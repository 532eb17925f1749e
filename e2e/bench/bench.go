package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// namespace holds everything that a run writes.
const namespace = "rowlock-bench"

// fillClients is how many clients create the pods that exist during the run.
const fillClients = 16

// target is a server that is running.
type target struct {
	Name       string
	Kubeconfig string
	PIDs       processes
	DataDir    string
	// Ended is closed when the server has ended by itself; nil when the caller does not know.
	Ended <-chan struct{}
}

// errEnded is the reason to stop the work when the server has ended.
var errEnded = errors.New("the server has ended")

// bench is one run against one server.
type bench struct {
	options
	procs     processes
	config    *rest.Config
	opened    map[protocol][]*http.Client
	admin     *client // prepares and cleans
	pod       template
	configMap template
	server    *Server
	now       string // what is being measured
}

// measure runs the whole benchmark against one server and removes the objects that it wrote. A server that ends under the load is a result, not an
// error: the measurements until then count.
func measure(ctx context.Context, t target, o options) (_ *Server, err error) {
	if len(o.Clients) == 0 {
		return nil, errors.New("--clients: at least one number is needed")
	}
	if err := o.checkProtocols(); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", t.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	b := &bench{options: o, procs: t.PIDs, server: &Server{Name: t.Name}}
	if o.ServiceAccount {
		b.server.Name += ", as a service account"
	}
	if err := b.prepare(ctx, config); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-t.Ended:
			cancel(errEnded)
		case <-ctx.Done():
		}
	}()
	defer func() {
		if err != nil {
			_ = pause(ctx, time.Second) // let refused connections show before the end of the process
		}
		if errors.Is(context.Cause(ctx), errEnded) {
			b.server.Ended, err = b.now, nil
		}
		defer b.hangUp()
		if b.server.Ended != "" {
			return
		}
		// Cleaning up must work after an interrupt as well.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Minute)
		defer cancel()
		if cleanErr := b.clean(ctx); err == nil {
			err = cleanErr
		}
	}()
	return b.server, b.run(ctx, t)
}

// run does the work in its order. Writes come before lists, so that all servers list objects with a history. The largest numbers of clients come
// last, because some servers end under them.
func (b *bench) run(ctx context.Context, t target) error {
	if err := b.idle(ctx); err != nil {
		return err
	}
	if b.ServiceAccount {
		if err := b.becomeAccount(ctx); err != nil {
			return err
		}
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	fewer, most := b.Clients[:len(b.Clients)-1], b.Clients[len(b.Clients)-1]
	for _, n := range fewer {
		if err := b.writes(ctx, n); err != nil {
			return err
		}
	}
	for _, work := range []func(context.Context) error{b.lists, b.fanOuts, b.controllers, b.nodes} {
		if err := work(ctx); err != nil {
			return err
		}
	}
	if err := b.writes(ctx, most); err != nil {
		return err
	}
	if err := b.idleWatches(ctx); err != nil {
		return err
	}
	if err := pause(ctx, b.Idle); err != nil { // let the server release what the last lists needed
		return err
	}
	var err error
	if b.server.ResidentLoaded, err = b.procs.resident(); err != nil {
		return err
	}
	b.server.Disk, err = diskUsage(t.DataDir)
	return err
}

// prepare creates the clients, reads the server's version and creates the namespace, empty.
func (b *bench) prepare(ctx context.Context, config *rest.Config) (err error) {
	if b.pod, err = podTemplate(); err != nil {
		return err
	}
	if b.configMap, err = configMapTemplate(); err != nil {
		return err
	}
	b.config = config
	crew, err := b.crew(b.Protocols[0], 1)
	if err != nil {
		return err
	}
	b.admin = crew[0]
	c := b.admin
	if _, err := c.do(ctx, request{method: http.MethodGet, path: "/version", keep: true}); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	var version struct{ GitVersion string }
	if err := json.Unmarshal(c.body.Bytes(), &version); err != nil {
		return fmt.Errorf("version: %w", err)
	}
	b.server.Version = version.GitVersion
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, namespace)
	_, err = c.do(ctx, request{method: http.MethodPost, path: "/api/v1/namespaces", body: body})
	if isStatus(err, http.StatusConflict) {
		return b.empty(ctx) // objects of a run that was killed
	}
	return err
}

// clean removes the objects and the namespace. It also does the last step of a namespace's deletion, for servers without the controller that would do
// it.
func (b *bench) clean(ctx context.Context) error {
	if err := errors.Join(b.empty(ctx), b.removeAccount(ctx)); err != nil {
		return err
	}
	path := "/api/v1/namespaces/" + namespace
	if _, err := b.admin.do(ctx, request{method: http.MethodDelete, path: path}); err != nil {
		return fmt.Errorf("delete namespace: %w", err)
	}
	body := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q},"spec":{"finalizers":[]}}`, namespace)
	_, err := b.admin.do(ctx, request{method: http.MethodPut, path: path + "/finalize", body: body})
	if isStatus(err, http.StatusNotFound) || isStatus(err, http.StatusConflict) {
		return nil // it is done
	}
	return err
}

// empty removes the objects.
func (b *bench) empty(ctx context.Context) error {
	for _, path := range []string{podsPath, configMapsPath, leasesPath, benchNodesPath} {
		_, err := b.admin.do(ctx, request{method: http.MethodDelete, path: path})
		for isStatus(err, http.StatusGatewayTimeout) { // they are many
			_, err = b.admin.do(ctx, request{method: http.MethodDelete, path: path})
		}
		if err != nil {
			return fmt.Errorf("delete collection: %w", err)
		}
	}
	return nil
}

// idle measures the server before the first request.
func (b *bench) idle(ctx context.Context) error {
	if len(b.procs) == 0 {
		return nil
	}
	b.begin("idle")
	if err := pause(ctx, b.Idle/4); err != nil { // work after the start is not idleness
		return err
	}
	before, err := b.procs.cpu()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := pause(ctx, b.Idle); err != nil {
		return err
	}
	after, err := b.procs.cpu()
	if err != nil {
		return err
	}
	b.server.IdleCPU = (after - before).Seconds() / time.Since(began).Seconds()
	b.server.ResidentIdle, err = b.procs.resident()
	return err
}

// fill creates the pods that exist during the run.
func (b *bench) fill(ctx context.Context) error {
	b.begin("fill")
	crew, err := b.crew(b.Protocols[0], fillClients)
	if err != nil {
		return err
	}
	l := load{row: "fill", clients: crew, most: b.Pods, duration: 10 * time.Minute}
	result, err := l.run(ctx, b.procs, func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
		return c.do(ctx, request{method: http.MethodPost, path: podsPath, body: b.pod.fill(podName(seq), seq, 1)})
	})
	if err != nil {
		return err
	}
	if result.Errors > 0 {
		return fmt.Errorf("fill: %d of %d pods were refused: %s", result.Errors, b.Pods, result.FirstError)
	}
	return nil
}

// measureRow runs one load with n clients and keeps its result. It skips a row that is not selected.
func (b *bench) measureRow(ctx context.Context, p protocol, n int, l load, op operation) (result Result, err error) {
	if b.unwanted(l.row) && l.row != rowDelete { // deletes run with the creates
		return Result{}, nil
	}
	if l.clients, err = b.crew(p, n); err != nil {
		return Result{}, err
	}
	if l.duration == 0 {
		l.duration = b.Duration
	}
	b.begin(fmt.Sprintf("%s, %d clients, %s", l.row, n, p))
	result, err = l.run(ctx, b.procs, op)
	result.Protocol = p
	if err == nil {
		b.server.Results = append(b.server.Results, result)
	}
	return result, err
}

// unwanted tells whether a row is not selected.
func (b *bench) unwanted(row string) bool {
	return len(b.Rows) > 0 && !slices.ContainsFunc(b.Rows, func(wanted string) bool { return strings.Contains(row, wanted) })
}

// begin tells the user what is measured from now on.
func (b *bench) begin(what string) {
	b.now = what
	fmt.Fprintf(os.Stderr, "%s: %s\n", b.server.Name, what)
}

// pause waits, unless the run is interrupted.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
