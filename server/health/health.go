// Package health answers /healthz, /livez and /readyz in the words of kube-apiserver, which probes and people read.
// See https://kubernetes.io/docs/reference/using-api/health-checks/.
package health

import (
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
)

// Check is one thing that has to be well.
type Check struct {
	// Name is what the check is called in the answer, in ?exclude= and in the path.
	Name string
	// Run returns what is wrong. It is told the request whose context limits it.
	Run func(*http.Request) error
}

// Ping is a check that passes whenever it can be asked.
var Ping = Check{Name: "ping", Run: func(*http.Request) error { return nil }}

// Handler answers one health path and the paths of its checks below it.
type Handler struct {
	name   string
	checks []Check
	logger *slog.Logger
}

// New returns a handler for /name and /name/<check>, such as readyz. Without checks it is Ping. What fails is logged,
// because the answer to a stranger withholds why.
func New(name string, logger *slog.Logger, checks ...Check) *Handler {
	if len(checks) == 0 {
		checks = []Check{Ping}
	}
	return &Handler{name: name, checks: checks, logger: logger}
}

// ServeHTTP runs all checks, or the one that the path names.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, below := strings.CutPrefix(r.URL.Path, "/"+h.name+"/")
	if !below {
		h.serveAll(w, r)
		return
	}
	i := slices.IndexFunc(h.checks, func(c Check) bool { return c.Name == rest })
	if i < 0 {
		http.NotFound(w, r)
		return
	}
	if err := h.checks[i].Run(r); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}

func (h *Handler) serveAll(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	report, failed := h.report(r, query["exclude"])
	if failed {
		http.Error(w, fmt.Sprintf("%s%s check failed", report, h.name), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if query.Has("verbose") {
		fmt.Fprintf(w, "%s%s check passed\n", report, h.name)
		return
	}
	fmt.Fprint(w, "ok")
}

// report runs the checks that are not excluded, and describes each in a line.
func (h *Handler) report(r *http.Request, exclude []string) (lines string, failed bool) {
	var b strings.Builder
	var unknown []string
	for _, name := range exclude {
		if !slices.ContainsFunc(h.checks, func(c Check) bool { return c.Name == name }) {
			unknown = append(unknown, fmt.Sprintf("%q", name))
		}
	}
	for _, c := range h.checks {
		if slices.Contains(exclude, c.Name) {
			fmt.Fprintf(&b, "[+]%s excluded: ok\n", c.Name)
			continue
		}
		if err := c.Run(r); err != nil {
			failed = true
			fmt.Fprintf(&b, "[-]%s failed: reason withheld\n", c.Name)
			h.logger.WarnContext(r.Context(), "health check failed", "path", "/"+h.name, "check", c.Name, "error", err)
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
