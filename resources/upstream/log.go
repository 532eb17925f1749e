package upstream

import (
	"log/slog"

	"k8s.io/klog/v2"
)

// LogTo sends to a logger what upstream's packages say.
func LogTo(logger *slog.Logger) { klog.SetSlogLogger(logger) }

// SetVerbosity sets up to which level upstream's packages log: a number, 0 for what always is.
func SetVerbosity(v string) error {
	var level klog.Level
	return level.Set(v)
}
