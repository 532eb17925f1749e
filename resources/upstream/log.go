package upstream

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo sends to a logger what upstream's packages say.
func LogTo(logger *slog.Logger) { klog.SetSlogLogger(logger) }
