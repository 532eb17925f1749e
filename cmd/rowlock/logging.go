package main

import (
	"fmt"
	"io"
	"log/slog"
	"strconv"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/upstream"
)

// logOptions say what is logged, and how.
type logOptions struct {
	level, format string
	// now is the level, which can be changed while the server runs.
	now slog.LevelVar
}

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (o *logOptions) addFlags(flags *pflag.FlagSet) {
	flags.Var(newChoice(&o.level, "warn", "error", "info", "debug"), "log-level", "lowest level of log messages, which go to the standard error")
	flags.Var(newChoice(&o.format, "text", "json"), "log-format", "format of log lines")
}

// logger returns the only log of the process, to which upstream's packages and the standard library's log write as well.
func (o *logOptions) logger(w io.Writer) *slog.Logger {
	o.now.Set(logLevels[o.level])
	options := &slog.HandlerOptions{Level: &o.now, ReplaceAttr: hideKeysOf}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if o.format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	upstream.LogTo(logger)
	return logger
}

// hideKeysOf removes keys from errors, because upstream itself logs errors about a file that it reads again. If the Error method panics,
// as that of a nil pointer does, the attribute stays unchanged: slog handles such a value itself, but not a panic in this function.
func hideKeysOf(_ []string, a slog.Attr) (shown slog.Attr) {
	shown = a
	if a.Value.Kind() == slog.KindAny {
		if err, ok := a.Value.Any().(error); ok {
			defer func() { _ = recover() }()
			shown.Value = slog.AnyValue(hideKeys(err))
		}
	}
	return shown
}

// levelOf returns the level for a verbosity of kube-apiserver's.
func levelOf(verbosity int) string {
	switch {
	case verbosity >= 4:
		return "debug"
	case verbosity >= 1:
		return "info"
	}
	return "warn"
}

// setVerbosity changes the level, as kube-apiserver's --v does, and returns kube-apiserver's answer.
func (o *logOptions) setVerbosity(v string) (string, error) {
	n, err := strconv.Atoi(v)
	if err == nil {
		err = upstream.SetVerbosity(v)
	}
	if err != nil {
		return "", fmt.Errorf("failed set klog.logging.verbosity %s: %w", v, err)
	}
	o.now.Set(logLevels[levelOf(n)])
	return "successfully set klog.logging.verbosity to " + v, nil
}
