package controllers

import (
	"context"
	"slices"

	"github.com/tidwall/gjson"
	batchv1 "k8s.io/api/batch/v1"
	informersv1 "k8s.io/client-go/informers/batch/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/ttlafterfinished"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// jobWorkers is kube-controller-manager's number.
const jobWorkers = 5

// newFinishedJobs returns the controller that removes finished Jobs when their time to live is over.
func newFinishedJobs(c Config) controller {
	o := hosted.Options{Name: FinishedJobs, Follows: []hosted.Followed{{Resource: "jobs.batch", Needs: finishedForAWhile}}}
	return newHost(c, o, "ttl-after-finished-controller", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		ttlafterfinished.New(ctx, informersv1.New(informers, "", nil).Jobs(), client).Run(ctx, jobWorkers)
		return nil
	})
}

// finishedForAWhile tells whether a Job has finished and has a time to live.
func finishedForAWhile(o *resources.Object) bool {
	if !gjson.GetBytes(o.Data, "spec.ttlSecondsAfterFinished").Exists() {
		return false
	}
	finished := false
	gjson.GetBytes(o.Data, "status.conditions").ForEach(func(_, c gjson.Result) bool {
		finished = c.Get("status").Str == "True" &&
			slices.Contains([]batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}, batchv1.JobConditionType(c.Get("type").Str))
		return !finished
	})
	return finished
}
