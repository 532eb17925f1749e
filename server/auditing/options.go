package auditing

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// The modes of handing events to a back end.
const (
	// ModeBatch gathers events, and drops those that exceed the buffer.
	ModeBatch = "batch"
	// ModeBlocking makes requests wait for the back end.
	ModeBlocking = "blocking"
	// ModeBlockingStrict also refuses a request whose first event the back end does not accept.
	ModeBlockingStrict = "blocking-strict"
)

// Modes are all modes.
var Modes = []string{ModeBatch, ModeBlocking, ModeBlockingStrict}

// Formats are the formats of the log.
var Formats = log.AllowedFormats

// Options say what is recorded, and where, as kube-apiserver's flags do.
type Options struct {
	// PolicyFile has the policy. Empty: nothing is recorded.
	PolicyFile string
	Log        LogOptions
	Webhook    WebhookOptions
}

// LogOptions configure the log.
type LogOptions struct {
	// Path is the file; "-" is the standard output. Empty: there is no log.
	Path string
	// MaxAge is for how many days full files are kept, MaxBackups how many of them are kept, MaxSize the size of a full file, in
	// megabytes. 0: no limit.
	MaxAge, MaxBackups, MaxSize int
	// Compress: full files are compressed with gzip.
	Compress bool
	// Format is one of Formats, Version the API version of events.
	Format, Version string
	Delivery
}

// WebhookOptions configure the webhook.
type WebhookOptions struct {
	// ConfigFile is a kubeconfig of the webhook. Empty: there is none.
	ConfigFile string
	// InitialBackoff is the wait before events that were not accepted are sent again for the first time.
	InitialBackoff time.Duration
	// Version is the API version of events.
	Version string
	Delivery
}

// Delivery says how events are handed to a back end.
type Delivery struct {
	// Mode is one of Modes.
	Mode  string
	Batch buffered.BatchConfig
	// Truncate: events larger than Bounds are truncated.
	Truncate bool
	Bounds   truncate.Config
}

// Defaults are kube-apiserver's: nothing is recorded.
func Defaults() Options {
	const buffer = 10000
	version := auditv1.SchemeGroupVersion.String()
	bounds := truncate.Config{MaxBatchSize: 10 << 20, MaxEventSize: 100 << 10}
	return Options{
		Log: LogOptions{MaxAge: 366, MaxBackups: 100, MaxSize: 100, Format: log.FormatJson, Version: version,
			Delivery: Delivery{Mode: ModeBlocking, Bounds: bounds, Batch: buffered.BatchConfig{BufferSize: buffer, MaxBatchSize: 1}}},
		Webhook: WebhookOptions{InitialBackoff: webhook.DefaultInitialBackoffDelay, Version: version,
			Delivery: Delivery{Mode: ModeBatch, Bounds: bounds, Batch: buffered.BatchConfig{BufferSize: buffer, MaxBatchSize: 400,
				MaxBatchWait: 30 * time.Second, ThrottleEnable: true, ThrottleQPS: 10, ThrottleBurst: 15, AsyncDelegate: true}}},
	}
}

// Check refuses what kube-apiserver refuses, with its messages and in its order. It ignores options that are not used.
func (o *Options) Check() (errs []error) {
	if l := &o.Log; l.Path != "" {
		errs = append(errs, l.check(log.PluginName, l.Version)...)
		if !slices.Contains(Formats, l.Format) {
			errs = append(errs, fmt.Errorf("invalid audit log format %s, allowed formats are %q", l.Format, strings.Join(Formats, ",")))
		}
		for _, bound := range []struct {
			name  string
			value int
		}{{"maxage", l.MaxAge}, {"maxbackup", l.MaxBackups}, {"maxsize", l.MaxSize}} {
			if bound.value < 0 {
				errs = append(errs, fmt.Errorf("--audit-log-%s %v can't be a negative number", bound.name, bound.value))
			}
		}
	}
	if w := &o.Webhook; w.ConfigFile != "" {
		errs = append(errs, w.check(webhook.PluginName, w.Version)...)
	}
	return errs
}

func (d *Delivery) check(plugin, version string) (errs []error) {
	if err := d.checkBatch(plugin); err != nil {
		errs = append(errs, err)
	}
	switch {
	case d.Bounds.MaxEventSize <= 0:
		errs = append(errs, fmt.Errorf("invalid audit truncate %s max event size %v, must be a positive number", plugin, d.Bounds.MaxEventSize))
	case d.Bounds.MaxBatchSize < d.Bounds.MaxEventSize:
		errs = append(errs, fmt.Errorf("invalid audit truncate %s max batch size %v, must be greater than max event size (%v)",
			plugin, d.Bounds.MaxBatchSize, d.Bounds.MaxEventSize))
	}
	switch gv, err := schema.ParseGroupVersion(version); {
	case err != nil:
		errs = append(errs, err)
	case gv != auditv1.SchemeGroupVersion:
		errs = append(errs, fmt.Errorf("invalid group version, allowed versions are %q", []schema.GroupVersion{auditv1.SchemeGroupVersion}))
	}
	return errs
}

func (d *Delivery) checkBatch(plugin string) error {
	if !slices.Contains(Modes, d.Mode) {
		return fmt.Errorf("invalid audit %s mode %s, allowed modes are %q", plugin, d.Mode, strings.Join(Modes, ","))
	}
	if d.Mode != ModeBatch {
		return nil
	}
	const wrong = "invalid audit batch %s %s %v, must be a positive number"
	switch b := &d.Batch; {
	case b.BufferSize <= 0:
		return fmt.Errorf(wrong, plugin, "buffer size", b.BufferSize)
	case b.MaxBatchSize <= 0:
		return fmt.Errorf(wrong, plugin, "max batch size", b.MaxBatchSize)
	case b.ThrottleEnable && b.ThrottleQPS <= 0:
		return fmt.Errorf(wrong, plugin, "throttle QPS", b.ThrottleQPS)
	case b.ThrottleEnable && b.ThrottleBurst <= 0:
		return fmt.Errorf(wrong, plugin, "throttle burst", b.ThrottleBurst)
	}
	return nil
}
