package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/auditing"
)

// auditOptions say which requests are recorded, and where.
type auditOptions struct{ auditing.Options }

func (o *auditOptions) addFlags(flags *pflag.FlagSet) {
	o.Options = auditing.Defaults()
	flags.StringVar(&o.PolicyFile, "audit-policy-file", "", "`file` with the audit policy, which says what is recorded of which requests; without one nothing is")
	l := &o.Log
	flags.StringVar(&l.Path, "audit-log-path", "", "`file` that events are written to; - is the standard output")
	flags.IntVar(&l.MaxAge, "audit-log-maxage", l.MaxAge, "for how many `days` files of events that are full are kept; 0: for ever")
	flags.IntVar(&l.MaxBackups, "audit-log-maxbackup", l.MaxBackups, "how many of them are kept; 0: all")
	flags.IntVar(&l.MaxSize, "audit-log-maxsize", l.MaxSize, "with how many `megabytes` a file is full, and another begun; 0: never")
	flags.StringVar(&l.Format, "audit-log-format", l.Format, "the form of an event in the file: "+strings.Join(auditing.Formats, " or "))
	flags.StringVar(&l.Version, "audit-log-version", l.Version, "the API `version` of events in the file")
	flags.BoolVar(&l.Compress, "audit-log-compress", l.Compress, "compress files that are full with gzip")
	addDeliveryFlags(flags, "log", &l.Delivery)
	w := &o.Webhook
	flags.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "`kubeconfig` of a server that events are sent to")
	const backoff = "how `long` to wait before events that were not taken are sent again, the first time"
	flags.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", w.InitialBackoff, backoff)
	flags.DurationVar(&w.InitialBackoff, "audit-webhook-batch-initial-backoff", w.InitialBackoff, backoff)
	_ = flags.MarkDeprecated("audit-webhook-batch-initial-backoff", "use --audit-webhook-initial-backoff instead.") // the flag is there
	flags.StringVar(&w.Version, "audit-webhook-version", w.Version, "the API `version` of events that are sent")
	addDeliveryFlags(flags, "webhook", &w.Delivery)
}

// addDeliveryFlags adds those that the log and the webhook both have.
func addDeliveryFlags(flags *pflag.FlagSet, plugin string, d *auditing.Delivery) {
	name := func(s string) string { return "audit-" + plugin + "-" + s }
	flags.StringVar(&d.Mode, name("mode"), d.Mode, "whether requests wait until an event is there: batch, no; blocking, yes; blocking-strict, and they are "+
		"refused where the first event of a request is not taken")
	flags.IntVar(&d.Batch.BufferSize, name("batch-buffer-size"), d.Batch.BufferSize, "how many events wait at most in mode batch; more are dropped")
	flags.IntVar(&d.Batch.MaxBatchSize, name("batch-max-size"), d.Batch.MaxBatchSize, "how many events leave together at most in mode batch")
	flags.DurationVar(&d.Batch.MaxBatchWait, name("batch-max-wait"), d.Batch.MaxBatchWait, "how `long` an event waits for others at most in mode batch")
	flags.BoolVar(&d.Batch.ThrottleEnable, name("batch-throttle-enable"), d.Batch.ThrottleEnable, "bound how often events leave in mode batch")
	flags.Float32Var(&d.Batch.ThrottleQPS, name("batch-throttle-qps"), d.Batch.ThrottleQPS, "how many `times` a second they may on average")
	flags.IntVar(&d.Batch.ThrottleBurst, name("batch-throttle-burst"), d.Batch.ThrottleBurst, "how many `times` they may at once after a pause")
	flags.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "cut what is too large")
	flags.Int64Var(&d.Bounds.MaxBatchSize, name("truncate-max-batch-size"), d.Bounds.MaxBatchSize, "how many `bytes` of events leave together")
	flags.Int64Var(&d.Bounds.MaxEventSize, name("truncate-max-event-size"), d.Bounds.MaxEventSize,
		"how many `bytes` an event may have: of a larger one the request's and the answer's objects are left out, and then it is dropped")
}

// open returns the audit; nil when nothing is recorded.
func (o *auditOptions) open() (*auditing.Auditor, error) {
	agent := fmt.Sprintf("rowlock/%s (%s/%s) kubernetes/%s", ownVersion(), runtime.GOOS, runtime.GOARCH, upstream.Release)
	return auditing.Open(o.Options, agent)
}
