package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
)

// The rows of this file, as reports call them.
const (
	rowCreate = "create pod"
	rowDelete = "delete pod"
	rowGet    = "get pod"
	rowPut    = "get + put pod"
	rowPatch  = "merge patch pod"
	rowApply  = "server-side apply ConfigMap"
)

const (
	podsPath       = "/api/v1/namespaces/" + namespace + "/pods"
	configMapsPath = "/api/v1/namespaces/" + namespace + "/configmaps"
)

// appliedPerClient is how many ConfigMaps each client applies in turn.
const appliedPerClient = 5

// podName is the name of a pod that exists during the run.
func podName(seq int) string { return "pod-" + strconv.Itoa(seq) }

// writes measures the operations on single objects with n clients at once.
func (b *bench) writes(ctx context.Context, n int) error {
	for _, p := range b.Protocols {
		if err := b.createAndDelete(ctx, p, n); err != nil {
			return err
		}
	}
	for _, row := range []struct {
		name string
		op   operation
	}{{rowGet, b.get}, {rowPut, b.put(n)}, {rowPatch, b.patch(n)}, {rowApply, b.apply}} {
		for _, p := range b.Protocols { // one after the other, so that disturbances of the machine affect both
			if _, err := b.measureRow(ctx, p, n, load{row: row.name}, row.op); err != nil {
				return err
			}
		}
	}
	return nil
}

// createAndDelete measures creates, and the deletes of the created objects.
func (b *bench) createAndDelete(ctx context.Context, p protocol, n int) error {
	if b.unwanted(rowCreate) {
		return nil
	}
	created, err := b.measureRow(ctx, p, n, load{row: rowCreate},
		func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
			return c.do(ctx, request{method: http.MethodPost, path: podsPath, body: b.pod.fill(scratchName(n, seq), seq, 1)})
		})
	if err != nil {
		return err
	}
	made := created.Ops + created.Errors
	// All of them have to be deleted, however long it takes: the lists are of the pods that exist during the run.
	_, err = b.measureRow(ctx, p, n, load{row: rowDelete, most: made, duration: 100 * b.Duration},
		func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
			return c.do(ctx, request{method: http.MethodDelete, path: podsPath + "/" + scratchName(n, seq)})
		})
	return err
}

// scratchName is the name of a pod that is created to be deleted.
func scratchName(clients, seq int) string { return fmt.Sprintf("scratch-%d-%d", clients, seq) }

// mine returns the path of a pod that no other client writes while this load runs, as controllers divide their work: a
// benchmark of conflicts would measure how often the clients repeat themselves.
func (b *bench) mine(n, turn, clients int) string {
	share := max(1, b.Pods/clients)
	return podsPath + "/" + podName((n+clients*(turn%share))%b.Pods)
}

func (b *bench) get(ctx context.Context, c *client, _, _, seq int) (int64, error) {
	const stride = 7919 // a prime, so that neighbours in time are not neighbours in the store
	return c.do(ctx, request{method: http.MethodGet, path: podsPath + "/" + podName(seq*stride%b.Pods)})
}

// put reads a pod and writes it back, changed, as controllers do.
func (b *bench) put(clients int) operation {
	return func(ctx context.Context, c *client, n, turn, seq int) (int64, error) {
		path := b.mine(n, turn, clients)
		got, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true})
		if err != nil {
			return got, err
		}
		body := bytes.Clone(c.body.Bytes())
		if !setTurn(body, int64(seq)+2) {
			return got, errors.New("the pod has lost its annotation")
		}
		put, err := c.do(ctx, request{method: http.MethodPut, path: path, body: body})
		return got + put, err
	}
}

func (b *bench) patch(clients int) operation {
	return func(ctx context.Context, c *client, n, turn, seq int) (int64, error) {
		return c.do(ctx, turnPatch(b.mine(n, turn, clients), int64(seq)+2))
	}
}

// turnPatch is the request that sets the turn of a pod by merge patch.
func turnPatch(path string, turn int64) request {
	return request{
		method:      http.MethodPatch,
		path:        path,
		contentType: "application/merge-patch+json",
		body:        fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"%0*d"}}}`, turnAnnotation, turnDigits, turn),
	}
}

func (b *bench) apply(ctx context.Context, c *client, n, turn, seq int) (int64, error) {
	name := fmt.Sprintf("applied-%d-%d", n, turn%appliedPerClient)
	return c.do(ctx, request{
		method:      http.MethodPatch,
		path:        configMapsPath + "/" + name + "?fieldManager=bench&force=true",
		contentType: "application/apply-patch+yaml",
		body:        b.configMap.fill(name, 0, int64(seq)+2),
	})
}

// isStatus says whether err is an answer with this code.
func isStatus(err error, code int) bool {
	status, ok := errors.AsType[*statusError](err)
	return ok && status.code == code
}
