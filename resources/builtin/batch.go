package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/batch"
	"k8s.io/kubernetes/pkg/registry/batch/cronjob"
	"k8s.io/kubernetes/pkg/registry/batch/job"

	"github.com/rowlock/rowlock/resources"
)

func batchGroup() resources.GroupSpec {
	v1 := schema.GroupVersion{Group: "batch", Version: "v1"}
	return single(v1,
		define[batch.CronJob, batch.CronJobList](v1, "cronjobs", cronjob.Strategy,
			short("cj"), in("all"), clockColumns, status(cronjob.StatusStrategy)),
		define[batch.Job, batch.JobList](v1, "jobs", job.Strategy,
			in("all"), selectBy(job.GetAttrs), clockColumns, warnOfOrphans, status(job.StatusStrategy)),
	)
}
