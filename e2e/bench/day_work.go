package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Work of a node of the day, in steps of leaseStep. Nodes do work that is not in each step at different steps.
const (
	leaseStep = 10 * time.Second // a kubelet renews its lease
	// stepsOfStatus, and so on, are the numbers of steps between a node's status reports, between its events, between status changes of one of its pods,
	// and between replacements of one of its pods.
	stepsOfStatus, stepsOfEvent, stepsOfPod, stepsOfChurn = 30, 12, 6, 180

	dayPods    = 10 // per node
	dayWorkers = 32 // clients that act for the nodes

	eventsPath = "/api/v1/namespaces/" + namespace + "/events"
)

// dayWork is the work of the cluster of a day.
type dayWork struct {
	dayOptions
	*bench
	dir      string
	lease    template
	kubelets []*kubelet
}

// kubelet is a node with its pods. It belongs to one worker.
type kubelet struct {
	number int
	lease  []byte // as written last
	pods   [dayPods]int
}

func (k *kubelet) podPath(i int) string {
	return fmt.Sprintf("%s/%s", podsPath, k.podName(i))
}

func (k *kubelet) podName(i int) string { return fmt.Sprintf("day-%d-%d-%d", k.number, i, k.pods[i]) }

// makeCluster creates the nodes and the other initial objects of the day.
func (w *dayWork) makeCluster(ctx context.Context) error {
	node, lease, err := nodeTemplates()
	if err != nil {
		return err
	}
	w.lease = lease
	w.kubelets = make([]*kubelet, w.cluster)
	for i := range w.kubelets {
		w.kubelets[i] = &kubelet{number: i}
	}
	crew, err := w.crew(w.Protocols[0], fillClients)
	if err != nil {
		return err
	}
	l := load{row: "cluster", clients: crew, most: w.cluster, duration: 10 * time.Minute}
	made, err := l.run(ctx, nil, func(ctx context.Context, c *client, _, _, seq int) (int64, error) {
		k := w.kubelets[seq]
		name := nodeName(k.number)
		_, err := c.do(ctx, request{method: http.MethodPost, path: nodesPath, body: node.fill(name, seq, 1)})
		if err != nil {
			return 0, err
		}
		if _, err = c.do(ctx, request{method: http.MethodPost, path: leasesPath, body: lease.fill(name, seq, 1), keep: true}); err != nil {
			return 0, err
		}
		k.lease = bytes.Clone(c.body.Bytes())
		for i := range k.pods {
			if _, err := c.do(ctx, request{method: http.MethodPost, path: podsPath, body: w.pod.fill(k.podName(i), i, 1)}); err != nil {
				return 0, err
			}
		}
		return 0, nil
	})
	if err == nil && made.Errors > 0 {
		err = errors.New(made.FirstError)
	}
	return err
}

// workers runs the day, from step to step, and returns the workers' results. A late worker does not wait for the next step.
func (w *dayWork) workers(ctx context.Context) ([]*dayWorker, error) {
	crew, err := w.crew(w.Protocols[0], min(dayWorkers, w.cluster))
	if err != nil {
		return nil, err
	}
	if err := (load{clients: crew}).connect(ctx); err != nil {
		return nil, err
	}
	workers := make([]*dayWorker, len(crew))
	steps := int(w.day / leaseStep)
	began := time.Now()
	var all sync.WaitGroup
	for n, c := range crew {
		one := &dayWorker{client: c, work: w}
		workers[n] = one
		all.Go(func() {
			for step := range steps {
				due := began.Add(time.Duration(float64(step) * float64(leaseStep) / w.speed()))
				if err := pause(ctx, time.Until(due)); err != nil {
					return
				}
				for i := n; i < w.cluster; i += len(crew) {
					one.step(ctx, w.kubelets[i], step)
				}
			}
		})
	}
	all.Wait()
	return workers, ctx.Err()
}

// dayWorker is a client that acts for some nodes.
type dayWorker struct {
	client *client
	work   *dayWork
	worker
	writes int   // acknowledged writes
	stored int64 // bytes of the objects after its writes, as JSON
}

// step does a node's work in a step.
func (d *dayWorker) step(ctx context.Context, k *kubelet, step int) {
	at := func(every int) bool { return (step+k.number)%every == 0 }
	path := leasesPath + "/" + nodeName(k.number)
	if setTurn(k.lease, int64(step)+2) && d.write(ctx, request{method: http.MethodPut, path: path, body: k.lease}) {
		k.lease = bytes.Clone(d.client.body.Bytes())
	}
	if at(stepsOfStatus) {
		d.write(ctx, request{method: http.MethodPatch, path: nodesPath + "/" + nodeName(k.number) + "/status", body: heartbeat(step),
			contentType: "application/strategic-merge-patch+json"})
	}
	pod := step / stepsOfPod % dayPods
	if at(stepsOfPod) {
		d.write(ctx, podStatus(k.podPath(pod), step))
	}
	if at(stepsOfEvent) {
		d.write(ctx, request{method: http.MethodPost, path: eventsPath, body: dayEvent(k, pod, step)})
	}
	if at(stepsOfChurn) {
		d.write(ctx, request{method: http.MethodDelete, path: k.podPath(pod)})
		k.pods[pod]++
		d.write(ctx, request{method: http.MethodPost, path: podsPath, body: d.work.pod.fill(k.podName(pod), pod, 1)})
		d.write(ctx, podStatus(k.podPath(pod), step+1))
	}
}

// write sends a write, and counts the size of the object that it left.
func (d *dayWorker) write(ctx context.Context, r request) bool {
	before := d.errors
	r.keep = true
	d.record(time.Now(), func(ctx context.Context, c *client, _, _, _ int) (int64, error) { return c.do(ctx, r) }, ctx, d.client, 0, 0, 0)
	if d.errors > before {
		return false
	}
	d.writes++
	d.stored += int64(d.client.body.Len())
	return true
}

func podStatus(path string, step int) request {
	return request{method: http.MethodPatch, path: path + "/status", contentType: "application/merge-patch+json", body: fmt.Appendf(nil,
		`{"status":{"phase":"Running","podIP":"192.0.2.%d","conditions":[{"type":"Ready","status":"%s","lastProbeTime":null,"lastTransitionTime":%q}]}}`,
		step%250, []string{"True", "False"}[step%2], dayTime(step))}
}

func dayTime(step int) string {
	return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(step) * leaseStep).Format(time.RFC3339)
}

func dayEvent(k *kubelet, pod, step int) []byte {
	name, at := k.podName(pod), dayTime(step)
	return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Event","metadata":{"name":"%s.%d","namespace":%q},"type":"Warning","reason":"Unhealthy","count":1,`+
		`"message":"Readiness probe failed: Get \"http://192.0.2.1:8080/ready\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)",`+
		`"involvedObject":{"apiVersion":"v1","kind":"Pod","name":%q,"namespace":%q},"firstTimestamp":%q,"lastTimestamp":%q,`+
		`"source":{"component":"kubelet","host":%q}}`, name, step, namespace, name, namespace, at, at, nodeName(k.number))
}
