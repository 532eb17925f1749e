// Package health serves /healthz, /livez and /readyz with the texts of kube-apiserver, which probes and people read.
// See https://kubernetes.io/docs/reference/using-api/health-checks/.
//
//	health.go   the paths and their answers
//	limited.go  a check that all requests share
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/component-base/metrics/prometheus/slis"
)

// Check is one health check.
type Check struct {
	// Name is the name of the check in the answer, in ?exclude= and in the path.
	Name string
	// Run returns an error when the check fails. The context of the request limits it; see Limited for what heeds none.
	Run func(*http.Request) error
	// Optional checks do not fail the whole, and do not delay it: one that has not passed within optionalWait is shown as excluded.
	Optional bool
	// Told checks show their error in the verbose answer for the whole, since it is not secret.
	Told bool
	// logged checks log their failures themselves.
	logged bool
}

// optionalWait is well below the second that probes wait by default.
const optionalWait = 300 * time.Millisecond

// Ping is a check that always passes.
var Ping = Check{Name: "ping", Run: func(*http.Request) error { return nil }}

// Finished is the check of a step of the start that is done before the server accepts requests.
func Finished(name string) Check { return Check{Name: name, Run: Ping.Run} }

// Handler serves one health path and the paths of its checks below it.
type Handler struct {
	name   string
	checks func() []Check
	logger *slog.Logger
	// said has the errors that were logged last, by check; empty: the check has passed since.
	said sync.Map
}

// New returns a handler for /name and /name/<check>, such as readyz. Failures are logged, because the answer to an
// anonymous client does not have the reason. A failure that goes on is logged once, however often clients ask.
func New(name string, logger *slog.Logger, checks func() []Check) *Handler {
	return &Handler{name: name, checks: checks, logger: logger}
}

// runWithin runs a check for the whole, an optional one for optionalWait at most.
func runWithin(c Check, r *http.Request) error {
	if c.Optional {
		ctx, cancel := context.WithTimeout(r.Context(), optionalWait)
		defer cancel()
		r = r.WithContext(ctx)
	}
	return c.Run(r)
}

// ServeHTTP runs all checks, or the one that the path names.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.Serve(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusGatewayTimeout)
	}
}

// Serve is ServeHTTP for a caller that answers itself when the time of the request is over: if a check fails after that, Serve returns
// an error and has written nothing.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request) error {
	rest, below := strings.CutPrefix(r.URL.Path, "/"+h.name+"/")
	if !below {
		return h.serveAll(w, r)
	}
	checks := h.checks()
	i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == rest })
	if i < 0 {
		http.NotFound(w, r)
		return nil
	}
	if err := checks[i].Run(r); err != nil {
		return refuse(w, r, fmt.Sprintf("internal server error: %v", err))
	}
	fmt.Fprint(w, "ok")
	return nil
}

func refuse(w http.ResponseWriter, r *http.Request, why string) error {
	if err := r.Context().Err(); errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	http.Error(w, why, http.StatusInternalServerError)
	return nil
}

func (h *Handler) serveAll(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	report, failed := h.report(r, query)
	if failed {
		return refuse(w, r, fmt.Sprintf("%s%s check failed", report, h.name))
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if query.Has("verbose") {
		fmt.Fprintf(w, "%s%s check passed\n", report, h.name)
		return nil
	}
	fmt.Fprint(w, "ok")
	return nil
}

// count records the result of a check in the metrics of health checks, at /metrics/slis.
func (h *Handler) count(r *http.Request, check string, err error) {
	result := slis.Success
	if err != nil {
		result = slis.Error
	}
	_ = slis.ObserveHealthcheck(r.Context(), check, h.name, result) // it has no errors
}

// note logs a failure of a check if the log does not have it yet. What a check says to a client that is gone is not
// logged, since it may only say that.
func (h *Handler) note(r *http.Request, check string, err error) {
	if r.Context().Err() != nil {
		return
	}
	said := ""
	if err != nil {
		said = err.Error()
	}
	if before, _ := h.said.Swap(check, said); said != "" && before != said {
		logFailure(r.Context(), h.logger.With("path", "/"+h.name), check, said)
	}
}

func logFailure(ctx context.Context, logger *slog.Logger, check, said string) {
	logger.WarnContext(ctx, "health check failed", "check", check, "error", said)
}

// report runs the checks that are not excluded, and describes each in a line.
func (h *Handler) report(r *http.Request, query url.Values) (lines string, failed bool) {
	exclude := query["exclude"]
	var b strings.Builder
	var unknown []string
	checks := h.checks()
	for _, name := range exclude {
		if !slices.ContainsFunc(checks, func(c Check) bool { return c.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	for _, c := range checks {
		if slices.Contains(exclude, c.Name) {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		err := runWithin(c, r)
		h.count(r, c.Name, err)
		if !c.Optional && !c.logged {
			h.note(r, c.Name, err)
		}
		switch {
		case err != nil && c.Optional:
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
			continue
		case err != nil:
			failed = true
			reason := "reason withheld"
			if c.Told && query.Has("verbose") {
				reason = err.Error()
			}
			fmt.Fprintf(&b, "[-]%s failed: %s\n", c.Name, reason)
			continue
		}
		fmt.Fprintf(&b, "[+]%s ok\n", c.Name)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		fmt.Fprintf(&b, "warn: some health checks cannot be excluded: no matches for %s\n",
			strings.Join(slices.Compact(unknown), ","))
	}
	return b.String(), failed
}
