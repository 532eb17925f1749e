package main

import (
	"io"
	"log/slog"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/upstream"
)

// logOptions say what is logged, and how.
type logOptions struct{ level, format string }

var logLevels = map[string]slog.Level{
	"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
}

func (o *logOptions) addFlags(flags *pflag.FlagSet) {
	flags.Var(newChoice(&o.level, "warn", "error", "info", "debug"), "log-level", "the least that is logged, on standard error")
	flags.Var(newChoice(&o.format, "text", "json"), "log-format", "the form of a line of the log")
}

// logger makes the one log, and sends there as well what upstream's packages and the standard library's log say.
func (o *logOptions) logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: logLevels[o.level]}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if o.format == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	logger := slog.New(handler)
	slog.SetDefault(logger)
	upstream.LogTo(logger)
	return logger
}
