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

// How events are handed to a back end.
const (
	// ModeBatch gathers them, and drops what is too much.
	ModeBatch = "batch"
	// ModeBlocking has requests wait for it.
	ModeBlocking = "blocking"
	// ModeBlockingStrict also refuses a request whose first event it does not take.
	ModeBlockingStrict = "blocking-strict"
)

// Modes are all of them.
var Modes = []string{ModeBatch, ModeBlocking, ModeBlockingStrict}

// Formats are those of the log.
var Formats = log.AllowedFormats

// Options say what is recorded, and where, as kube-apiserver's flags do.
type Options struct {
	// PolicyFile says what is recorded. Empty: nothing is.
	PolicyFile string
	Log        LogOptions
	Webhook    WebhookOptions
}

// LogOptions are those of the file.
type LogOptions struct {
	// Path is the file; "-" is the standard output. Empty: there is none.
	Path string
	// MaxAge is for how many days files that are full are kept, MaxBackups how many of them, MaxSize when one is full, in megabytes.
	// 0: without bounds.
	MaxAge, MaxBackups, MaxSize int
	// Compress: files that are full are compressed with gzip.
	Compress bool
	// Format is one of Formats, Version the API version of events.
	Format, Version string
	Delivery
}

// WebhookOptions are those of the webhook.
type WebhookOptions struct {
	// ConfigFile is a kubeconfig that leads to it. Empty: there is none.
	ConfigFile string
	// InitialBackoff is how long is waited before events that were not taken are sent again, the first time.
	InitialBackoff time.Duration
	// Version is the API version of events.
	Version string
	Delivery
}

// Delivery is how events get to a back end.
type Delivery struct {
	// Mode is one of Modes.
	Mode  string
	Batch buffered.BatchConfig
	// Truncate: what is larger than Bounds say is cut.
	Truncate bool
	Bounds   truncate.Config
}

// Defaults are kube-apiserver's: no events, nowhere.
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

// Check refuses what kube-apiserver refuses, in its words and order. What is not used is not looked at.
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
