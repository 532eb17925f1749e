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

// Server is everything that was measured of one server.
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
	// Disk is the bytes that the store's files take after the run.
	Disk    int64
	Results []Result
	FanOut  *FanOut
	// Ended is what was being measured when the server ended by itself, LastWords the line of its log that says why.
	Ended, LastWords string `json:",omitempty"`
}

// Result is one operation repeated by a number of clients.
type Result struct {
	Row     string
	Clients int
	Ops     int // that succeeded
	Errors  int
	Seconds float64
	// P50 and P99 are of what succeeded.
	P50, P99 time.Duration
	// CPU is the server's, user and system, per operation.
	CPU time.Duration
	// Bytes is what the server sent per operation, without headers.
	Bytes      int64
	FirstError string `json:",omitempty"`
}

// FanOut is what many watchers of the same writes saw.
type FanOut struct {
	Watchers, Writes, WriteErrors int
	Events, Lost, Repeated        int // of all watchers together
	Reconnects, Expired           int
	Seconds                       float64
	P50, P99                      time.Duration // from before the write was sent until its event was read
	CPU                           time.Duration // the server's, per event and watcher, without the writes'
}

// find returns the result of a row, or nil.
func (s *Server) find(row string, clients int) *Result {
	for i, r := range s.Results {
		if r.Row == row && r.Clients == clients {
			return &s.Results[i]
		}
	}
	return nil
}

// markdown prints servers side by side.
func markdown(servers []*Server) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s.\n\n", machine())
	out.WriteString("### Servers\n\n")
	serverTable(&out, servers)
	out.WriteString("\n### Lists and events\n\n")
	listTable(&out, servers)
	for _, row := range []string{rowCreate, rowGet, rowPut, rowPatch, rowApply, rowDelete} {
		fmt.Fprintf(&out, "\n### %s\n\n", strings.ToUpper(row[:1])+row[1:])
		loadTable(&out, servers, row)
	}
	errorList(&out, servers)
	return out.String()
}

// serverTable prints what is measured once per server.
func serverTable(out *strings.Builder, servers []*Server) {
	table(out, servers, "", []tableRow{
		{"version", func(s *Server) string { return s.Version }},
		{"start to ready, fresh store", func(s *Server) string { return milliseconds(s.StartToReady) }},
		{"resident, idle", func(s *Server) string { return mebibytes(s.ResidentIdle) }},
		{"resident, after the run", func(s *Server) string { return mebibytes(s.ResidentLoaded) }},
		{"CPU when idle", func(s *Server) string {
			if s.ResidentIdle == 0 {
				return "–"
			}
			return fmt.Sprintf("%.2f %% of a core", 100*s.IdleCPU)
		}},
		{"disk after the run", func(s *Server) string { return mebibytes(s.Disk) }},
	})
}

// listTable prints the lists (time of one, CPU, size) and the fan-out.
func listTable(out *strings.Builder, servers []*Server) {
	var rows []tableRow
	for _, row := range []string{rowListJSON, rowListProtobuf, rowListTable, rowListSelector, rowListPages} {
		rows = append(rows, tableRow{row, func(s *Server) string {
			r := s.find(row, 1)
			if r == nil || r.Ops == 0 {
				return "–"
			}
			return fmt.Sprintf("%s, %s CPU, %.1f MB", milliseconds(r.P50), milliseconds(r.CPU), float64(r.Bytes)/1e6)
		}})
	}
	fan := func(name string, value func(*FanOut) string) {
		rows = append(rows, tableRow{name, func(s *Server) string {
			if s.FanOut == nil {
				return "–"
			}
			return value(s.FanOut)
		}})
	}
	fan("one event to one watcher", func(f *FanOut) string { return microseconds(f.CPU) + " CPU" })
	fan("watchers, events of each", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Watchers, f.Writes) })
	fan("events per second, all watchers", func(f *FanOut) string { return fmt.Sprintf("%.0f", float64(f.Events)/f.Seconds) })
	fan("delay p50, p99", func(f *FanOut) string { return milliseconds(f.P50) + ", " + milliseconds(f.P99) })
	fan("reconnects, expired", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Reconnects, f.Expired) })
	fan("lost, repeated", func(f *FanOut) string { return fmt.Sprintf("%d, %d", f.Lost, f.Repeated) })
	table(out, servers, "", rows)
}

// loadTable prints one row at every number of clients.
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
	for _, clients := range counts {
		rows = append(rows, tableRow{fmt.Sprint(clients), func(s *Server) string {
			r := s.find(row, clients)
			switch {
			case r == nil && strings.HasPrefix(s.Ended, fmt.Sprintf("%s, %d ", row, clients)):
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
		}})
	}
	table(out, servers, "clients", rows)
}

// tableRow is a row of a table with a column per server.
type tableRow struct {
	name string
	cell func(*Server) string
}

func table(out *strings.Builder, servers []*Server, corner string, rows []tableRow) {
	fmt.Fprintf(out, "| %s |", corner)
	for _, s := range servers {
		fmt.Fprintf(out, " %s |", s.Name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(servers)) + "\n")
	for _, row := range rows {
		fmt.Fprintf(out, "| %s |", row.name)
		for _, s := range servers {
			fmt.Fprintf(out, " %s |", row.cell(s))
		}
		out.WriteString("\n")
	}
}

// errorList prints which servers ended and one error of each row that had some.
func errorList(out *strings.Builder, servers []*Server) {
	title := "\n### Errors\n\n"
	for _, s := range servers {
		if s.Ended != "" {
			fmt.Fprintf(out, "%s- %s ended by itself (%s): `%s`\n", title, s.Name, s.Ended, s.LastWords)
			title = ""
		}
		for _, r := range s.Results {
			if r.Errors > 0 {
				fmt.Fprintf(out, "%s- %s, %s, %d clients: %d of %d, the first: `%s`\n", title, s.Name, r.Row, r.Clients,
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

// machine says on what the measurement was made.
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
