package server

import (
	"bytes"
	"io"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	epmetrics "k8s.io/apiserver/pkg/endpoints/metrics"
)

// connectionLog receives the log of an http.Server. It passes the lines on to the Writer, at debug level.
type connectionLog struct {
	io.Writer
	logger  *slog.Logger
	refused *rate.Sometimes
}

// newConnectionLog logs at most once a minute why no connection can be accepted, because clients see nothing but a delay then.
func newConnectionLog(l *slog.Logger) connectionLog {
	return connectionLog{slog.NewLogLogger(l.Handler(), slog.LevelDebug).Writer(), l, &rate.Sometimes{Interval: time.Minute}}
}

// Write implements io.Writer. It counts failed TLS handshakes.
func (l connectionLog) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("TLS handshake error")) {
		epmetrics.TLSHandshakeErrors.Inc()
	}
	if why, ok := bytes.CutPrefix(line, []byte("http: Accept error: ")); ok {
		why, _, _ = bytes.Cut(why, []byte("; retrying"))
		l.refused.Do(func() { l.logger.Warn("no connection can be accepted", "error", string(why)) })
	}
	return l.Writer.Write(line)
}
