package auditing

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	"k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	"k8s.io/apiserver/plugin/pkg/audit/webhook"

	"github.com/rowlock/rowlock/resources/bounded"
	"github.com/rowlock/rowlock/resources/files"
	"github.com/rowlock/rowlock/resources/upstream"
)

// backend returns the back end for the options, nil when there is none.
func (o *Options) backend() (audit.Backend, error) {
	var all []audit.Backend
	if o.Log.Path != "" {
		one, err := o.Log.backend()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if o.Webhook.ConfigFile != "" {
		one, err := o.Webhook.backend()
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, nil
	}
	return audit.Union(all...), nil
}

func (o *LogOptions) backend() (audit.Backend, error) {
	to, err := o.open()
	if err != nil {
		return nil, fmt.Errorf("ensureLogFile: %w", err)
	}
	var one audit.Backend = newLines(to)
	if o.Format != log.FormatJson {
		one = log.NewBackend(to, o.Format, auditv1.SchemeGroupVersion)
	}
	return o.deliver(closing{one, to}), nil
}

// open opens or creates the file. Only its owner may read a new file, since events can contain secrets. Package resources/files defines the owner.
func (o *LogOptions) open() (io.WriteCloser, error) {
	if o.Path == "-" {
		return standardOutput{os.Stdout}, nil
	}
	if err := files.MakeDir(filepath.Dir(o.Path)); err != nil {
		return nil, err
	}
	f, err := files.Open(o.Path)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	if o.MaxSize == 0 {
		return os.OpenFile(o.Path, os.O_APPEND|os.O_RDWR, 0)
	}
	// A new file after rotation gets the owner of the file before it.
	return &lumberjack.Logger{Filename: o.Path, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups, MaxSize: o.MaxSize, Compress: o.Compress}, nil
}

// standardOutput is not closed: other parts of the process use it, too.
type standardOutput struct{ io.Writer }

func (standardOutput) Close() error { return nil }

// closing closes a file after the last event.
type closing struct {
	audit.Backend
	file io.Closer
}

// Shutdown implements audit.Backend.
func (b closing) Shutdown() {
	b.Backend.Shutdown()
	_ = b.file.Close() // by now every event was written or counted as not written
}

func (o *WebhookOptions) backend() (audit.Backend, error) {
	one, err := webhook.NewBackend(o.ConfigFile, auditv1.SchemeGroupVersion, webhookutil.DefaultRetryBackoffWithInitialDelay(o.InitialBackoff), nil)
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	asks, err := upstream.WebhookOf(one)
	if err != nil {
		return nil, fmt.Errorf("initializing audit webhook: %w", err)
	}
	bounded.Webhook(asks)
	return o.deliver(one), nil
}

// deliver wraps a back end so that it gets events in the configured mode.
func (d *Delivery) deliver(to audit.Backend) audit.Backend {
	switch d.Mode {
	case ModeBlockingStrict:
	case ModeBlocking:
		to = lenient{to}
	default:
		to = buffered.NewBackend(to, d.Batch)
	}
	if d.Truncate {
		to = truncate.NewBackend(to, d.Bounds, auditv1.SchemeGroupVersion)
	}
	return to
}

// lenient is a back end that requests wait for, but whose errors fail no request.
type lenient struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (b lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	b.Backend.ProcessEvents(events...)
	return true
}

// String implements audit.Backend, in kube-apiserver's words.
func (b lenient) String() string { return fmt.Sprintf("ignoreErrors<%s>", b.Backend) }
