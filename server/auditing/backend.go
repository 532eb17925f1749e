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

// backend returns where events go to: nil, for nowhere.
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

// open returns the file, which is there then. Nobody but its owner may read one that is new: events can have what is secret. Who that is, resources/files says.
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
	// A file that is begun anew belongs to whom the one before it does.
	return &lumberjack.Logger{Filename: o.Path, MaxAge: o.MaxAge, MaxBackups: o.MaxBackups, MaxSize: o.MaxSize, Compress: o.Compress}, nil
}

// standardOutput is not closed: it is not the audit's alone.
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
	_ = b.file.Close() // every event was written, or counted as not written, by now
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

// deliver hands events to a back end in its mode.
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

// lenient is a back end that is waited for, and that no request fails of.
type lenient struct{ audit.Backend }

// ProcessEvents implements audit.Sink.
func (b lenient) ProcessEvents(events ...*auditinternal.Event) bool {
	b.Backend.ProcessEvents(events...)
	return true
}

// String implements audit.Backend, in kube-apiserver's words.
func (b lenient) String() string { return fmt.Sprintf("ignoreErrors<%s>", b.Backend) }
