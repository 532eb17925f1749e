package main

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Server has all measurements of one server.
type Server struct {
	Name    string
	Version string // gitVersion of /version
	// StartToReady is from the start of the process, on a fresh store, until /readyz answered 200; 0 when the server
	// was running already.
	StartToReady time.Duration
	// IdleCPU is in cores.
	IdleCPU float64
	// ResidentIdle and ResidentLoaded are bytes of all processes, before the first write and after the last.
	ResidentIdle, ResidentLoaded int64
	// Disk is the size of the store's files after the run, in bytes.
	Disk    int64
	Results []Result
	FanOuts []*FanOut
	// IdleWatches is nil when they were not measured.
	IdleWatches *IdleWatches `json:",omitempty"`
	// Ended is the measurement during which the server ended by itself, LastWords the line of its log with the reason.
	Ended, LastWords string `json:",omitempty"`
}

// Result is one operation repeated by a number of clients.
type Result struct {
	Row      string
	Protocol protocol
	Clients  int
	Ops      int // successful ones
	Errors   int
	Seconds  float64
	// P50 and P99 are those of successful operations.
	P50, P99 time.Duration
	// CPU is the server's, user and system, per operation.
	CPU time.Duration
	// Bytes is the size of the server's answer per operation, without headers.
	Bytes      int64
	FirstError string `json:",omitempty"`
}

// FanOut is the result of many watchers of the same writes.
type FanOut struct {
	Protocol                      protocol
	Watchers, Writes, WriteErrors int
	Events, Lost, Repeated        int // of all watchers together
	Reconnects, Expired           int
	Seconds                       float64
	P50, P99                      time.Duration // from before the write was sent until its event was read
	CPU                           time.Duration // the server's, per event and watcher, without the writes'
}

// find returns the result of a row, or nil. With no number of clients it is the first one.
func (s *Server) find(row string, p protocol, clients int) *Result {
	for i, r := range s.Results {
		if r.Row == row && r.Protocol == p && (r.Clients == clients || clients == 0) {
			return &s.Results[i]
		}
	}
	return nil
}

// fanOut returns the fan-out over a protocol, or nil.
func (s *Server) fanOut(p protocol) *FanOut {
	for _, f := range s.FanOuts {
		if f.Protocol == p {
			return f
		}
	}
	return nil
}

// spoken returns the protocols with which any of the servers was measured, HTTP/2 first.
func spoken(servers []*Server) (spoken []protocol) {
	for _, p := range protocols["both"] {
		if slices.ContainsFunc(servers, func(s *Server) bool {
			return s.fanOut(p) != nil || p == http2 && s.IdleWatches != nil || slices.ContainsFunc(s.Results, func(r Result) bool { return r.Protocol == p })
		}) {
			spoken = append(spoken, p)
		}
	}
	return spoken
}

// markdown prints servers side by side.
func markdown(servers []*Server) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s.\n\n", machine())
	out.WriteString("### Servers\n\n")
	serverTable(&out, servers)
	out.WriteString("\n### Protocols, and goals\n\n")
	ratioTable(&out, servers)
	for _, p := range spoken(servers) {
		fmt.Fprintf(&out, "\n### Lists, %s\n\n", p)
		listTable(&out, servers, p)
	}
	for _, p := range spoken(servers) {
		fmt.Fprintf(&out, "\n### Events and what controllers do, %s\n\n", p)
		eventTable(&out, servers, p)
	}
	for _, row := range []string{rowCreate, rowGet, rowPut, rowPatch, rowApply, rowDelete} {
		fmt.Fprintf(&out, "\n### %s\n\n", strings.ToUpper(row[:1])+row[1:])
		loadTable(&out, servers, row)
	}
	errorList(&out, servers)
	return out.String()
}

// serverTable prints the measurements that are made once per server.
func serverTable(out *strings.Builder, servers []*Server) {
	table(out, columnsOf(servers), "", []tableRow{
		{"version", func(c column) string { return c.server.Version }},
		{"start to ready, fresh store", func(c column) string { return milliseconds(c.server.StartToReady) }},
		{"resident, idle", func(c column) string { return mebibytes(c.server.ResidentIdle) }},
		{"resident, after the run", func(c column) string { return mebibytes(c.server.ResidentLoaded) }},
		{"CPU when idle", func(c column) string {
			if c.server.ResidentIdle == 0 {
				return "–"
			}
			return fmt.Sprintf("%.2f %% of a core", 100*c.server.IdleCPU)
		}},
		{"disk after the run", func(c column) string { return mebibytes(c.server.Disk) }},
	})
}

// listTable prints the lists over a protocol: time of one, CPU, size. Each server has a column without gzip and one with.
func listTable(out *strings.Builder, servers []*Server, p protocol) {
	var columns []column
	for _, s := range servers {
		columns = append(columns, column{s.Name, s, ""}, column{s.Name + gzipSuffix, s, gzipSuffix})
	}
	var rows []tableRow
	for _, row := range []string{rowListJSON, rowListProtobuf, rowListTable, rowListSelector, rowListPages, rowInformers} {
		rows = append(rows, tableRow{row, func(c column) string {
			r := c.server.find(row+c.variant, p, 0)
			if r == nil || r.Ops == 0 {
				return "–"
			}
			return fmt.Sprintf("%s, %s CPU, %.1f MB", milliseconds(r.P50), milliseconds(r.CPU), float64(r.Bytes)/1e6)
		}})
	}
	table(out, columns, "", rows)
}

// eventTable prints the fan-out over a protocol, the idle watches, and the loops of controllers and nodes.
func eventTable(out *strings.Builder, servers []*Server, p protocol) {
	var rows []tableRow
	fan := func(name string, value func(*FanOut) string) {
		rows = append(rows, tableRow{name, func(c column) string {
			if f := c.server.fanOut(p); f != nil {
				return value(f)
			}
			return "–"
		}})
	}
	fan("one event to one watcher", func(f *FanOut) string { return microseconds(f.CPU) + " CPU" })
	fan("watchers, events of each", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Watchers, f.Writes) })
	fan("events per second, all watchers", func(f *FanOut) string { return fmt.Sprintf("%.0f", float64(f.Events)/f.Seconds) })
	fan("delay p50, p99", func(f *FanOut) string { return milliseconds(f.P50) + ", " + milliseconds(f.P99) })
	fan("reconnects, expired", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Reconnects, f.Expired) })
	fan("lost, repeated", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Lost, f.Repeated) })
	if p == http2 {
		rows = append(rows, tableRow{rowIdleWatches, idleCell})
	}
	for _, row := range []string{rowControllers, rowNodes} {
		rows = append(rows, tableRow{row, func(c column) string { return loadCell(c.server, row, p, 0) }})
	}
	table(out, columnsOf(servers), "", rows)
}

func idleCell(c column) string {
	w := c.server.IdleWatches
	if w == nil {
		return "–"
	}
	text := fmt.Sprintf("%d: %s more, an event to all: p50 %s, p99 %s, %s CPU each",
		w.Watches, mebibytes(w.Resident), milliseconds(w.P50), milliseconds(w.P99), microseconds(w.CPU))
	if w.Failed > 0 {
		text += fmt.Sprintf(", **%d failed**", w.Failed)
	}
	return text
}

// loadTable prints one row at every number of clients, over each protocol.
func loadTable(out *strings.Builder, servers []*Server, row string) {
	var counts []int
	for _, s := range servers {
		for _, r := range s.Results {
			if r.Row == row && !slices.Contains(counts, r.Clients) {
				counts = append(counts, r.Clients)
			}
		}
	}
	slices.SortFunc(counts, cmp.Compare[int])
	var rows []tableRow
	for _, p := range spoken(servers) {
		for _, clients := range counts {
			rows = append(rows, tableRow{fmt.Sprintf("%d, %s", clients, p), func(c column) string {
				return loadCell(c.server, row, p, clients)
			}})
		}
	}
	table(out, columnsOf(servers), "clients", rows)
}

// loadCell formats the result of a load.
func loadCell(s *Server, row string, p protocol, clients int) string {
	r := s.find(row, p, clients)
	switch {
	case r == nil && strings.HasPrefix(s.Ended, fmt.Sprintf("%s, %d clients, %s", row, clients, p)):
		return "**the server ended**"
	case r == nil:
		return "–"
	}
	text := fmt.Sprintf("%.0f/s, p50 %s, p99 %s, %s CPU",
		float64(r.Ops)/r.Seconds, milliseconds(r.P50), milliseconds(r.P99), microseconds(r.CPU))
	if r.Errors > 0 {
		text += fmt.Sprintf(", **%d errors**", r.Errors)
	}
	return text
}

// column is a column of a table: a server, or a variant of its measurements.
type column struct {
	name    string
	server  *Server
	variant string
}

func columnsOf(servers []*Server) (columns []column) {
	for _, s := range servers {
		columns = append(columns, column{s.Name, s, ""})
	}
	return columns
}

// tableRow is a row of a table.
type tableRow struct {
	name string
	cell func(column) string
}

func table(out *strings.Builder, columns []column, corner string, rows []tableRow) {
	fmt.Fprintf(out, "| %s |", corner)
	for _, c := range columns {
		fmt.Fprintf(out, " %s |", c.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |", row.name)
		for _, c := range columns {
			fmt.Fprintf(out, " %s |", row.cell(c))
		}
		out.WriteString("\n")
	}
}

// errorList prints the servers that ended, and one error of each row with errors.
func errorList(out *strings.Builder, servers []*Server) {
	title := "\n### Errors\n\n"
	for _, s := range servers {
		if s.Ended != "" {
			fmt.Fprintf(out, "%s- %s ended by itself (%s): `%s`\n", title, s.Name, s.Ended, s.LastWords)
			title = ""
		}
		for _, r := range s.Results {
			if r.Errors > 0 {
				fmt.Fprintf(out, "%s- %s, %s, %d clients, %s: %d of %d, the first: `%s`\n", title, s.Name, r.Row, r.Clients, r.Protocol,
					r.Errors, r.Errors+r.Ops, strings.TrimSpace(r.FirstError))
				title = ""
			}
		}
	}
}

func milliseconds(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case d == 0:
		return "–"
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	default:
		return fmt.Sprintf("%.0f ms", ms)
	}
}

func microseconds(d time.Duration) string {
	if d < 10*time.Microsecond {
		return fmt.Sprintf("%.1f µs", float64(d)/float64(time.Microsecond))
	}
	return fmt.Sprintf("%d µs", d.Microseconds())
}

func mebibytes(n int64) string {
	if n == 0 {
		return "–"
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// machine describes the machine of the measurement.
func machine() string {
	model := "unknown processor"
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for scanner := bufio.NewScanner(bytes.NewReader(info)); scanner.Scan(); {
			if name, value, ok := strings.Cut(scanner.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%s/%s, %d cores (%s), %s, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), model,
		runtime.Version(), time.Now().UTC().Format(time.DateOnly))
}
