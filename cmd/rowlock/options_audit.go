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
	flags.StringVar(&o.PolicyFile, "audit-policy-file", "", "`file` with the audit policy, which selects the requests to record and their level; without it, nothing is recorded")
	l := &o.Log
	flags.StringVar(&l.Path, "audit-log-path", "", "`file` to write events to; - is the standard output")
	flags.IntVar(&l.MaxAge, "audit-log-maxage", l.MaxAge, "`days` to keep rotated files; 0 keeps them for ever")
	flags.IntVar(&l.MaxBackups, "audit-log-maxbackup", l.MaxBackups, "number of rotated files to keep; 0 keeps all")
	flags.IntVar(&l.MaxSize, "audit-log-maxsize", l.MaxSize, "`megabytes` at which the file is rotated; 0 never rotates it")
	flags.StringVar(&l.Format, "audit-log-format", l.Format, "format of events in the file: "+strings.Join(auditing.Formats, " or "))
	flags.StringVar(&l.Version, "audit-log-version", l.Version, "API `version` of events in the file")
	flags.BoolVar(&l.Compress, "audit-log-compress", l.Compress, "compress rotated files with gzip")
	addDeliveryFlags(flags, "log", &l.Delivery)
	w := &o.Webhook
	flags.StringVar(&w.ConfigFile, "audit-webhook-config-file", "", "`kubeconfig` of a server to send events to")
	const backoff = "how `long` to wait before the first retry of events that the server did not take"
	flags.DurationVar(&w.InitialBackoff, "audit-webhook-initial-backoff", w.InitialBackoff, backoff)
	flags.DurationVar(&w.InitialBackoff, "audit-webhook-batch-initial-backoff", w.InitialBackoff, backoff)
	_ = flags.MarkDeprecated("audit-webhook-batch-initial-backoff", "use --audit-webhook-initial-backoff instead.") // the flag exists
	flags.StringVar(&w.Version, "audit-webhook-version", w.Version, "API `version` of events that are sent")
	addDeliveryFlags(flags, "webhook", &w.Delivery)
}

// addDeliveryFlags adds the flags that both the log and the webhook have.
func addDeliveryFlags(flags *pflag.FlagSet, plugin string, d *auditing.Delivery) {
	name := func(s string) string { return "audit-" + plugin + "-" + s }
	flags.StringVar(&d.Mode, name("mode"), d.Mode, "batch: requests do not wait for their events; blocking: they wait; blocking-strict: they also fail when "+
		"their first event cannot be delivered")
	flags.IntVar(&d.Batch.BufferSize, name("batch-buffer-size"), d.Batch.BufferSize, "most events that wait in mode batch; further events are dropped")
	flags.IntVar(&d.Batch.MaxBatchSize, name("batch-max-size"), d.Batch.MaxBatchSize, "most events in one batch, in mode batch")
	flags.DurationVar(&d.Batch.MaxBatchWait, name("batch-max-wait"), d.Batch.MaxBatchWait, "how `long` a batch waits for more events, in mode batch")
	flags.BoolVar(&d.Batch.ThrottleEnable, name("batch-throttle-enable"), d.Batch.ThrottleEnable, "limit the rate of batches, in mode batch")
	flags.Float32Var(&d.Batch.ThrottleQPS, name("batch-throttle-qps"), d.Batch.ThrottleQPS, "average number of `batches` per second")
	flags.IntVar(&d.Batch.ThrottleBurst, name("batch-throttle-burst"), d.Batch.ThrottleBurst, "number of `batches` that may be sent at once after a pause")
	flags.BoolVar(&d.Truncate, name("truncate-enabled"), d.Truncate, "truncate events and batches that are too large")
	flags.Int64Var(&d.Bounds.MaxBatchSize, name("truncate-max-batch-size"), d.Bounds.MaxBatchSize, "most `bytes` of a batch")
	flags.Int64Var(&d.Bounds.MaxEventSize, name("truncate-max-event-size"), d.Bounds.MaxEventSize,
		"most `bytes` of an event; a larger event loses the objects of its request and response, and is dropped if it is still too large")
}

// open returns the audit; nil when nothing is recorded.
func (o *auditOptions) open() (*auditing.Auditor, error) {
	agent := fmt.Sprintf("rowlock/%s (%s/%s) kubernetes/%s", ownVersion(), runtime.GOOS, runtime.GOARCH, upstream.Release)
	return auditing.Open(o.Options, agent)
}
