package main

import (
	"fmt"
	"strings"
	"time"
)

// goal is a row of the goals: how much less processor time the first server should take over HTTP/2 than the second, in the same run.
type goal struct {
	name    string
	row     string
	clients int // 0: the row has one number of them
	times   float64
}

var goals = []goal{
	{"create pod, 16 clients", rowCreate, 16, 8},
	{"get + put pod", rowPut, 16, 8},
	{"merge patch pod", rowPatch, 16, 8},
	{"server-side apply ConfigMap", rowApply, 16, 8},
	{"get pod", rowGet, 16, 15},
	{"list pods, JSON, gzip", rowListJSON + gzipSuffix, 0, 18},
	{"list pods, protobuf, gzip", rowListProtobuf + gzipSuffix, 0, 12},
	{"list pods, Table, gzip", rowListTable + gzipSuffix, 0, 12},
	{"list pods, JSON", rowListJSON, 0, 0},
	{"list pods, protobuf", rowListProtobuf, 0, 0},
	{"list pods, Table", rowListTable, 0, 0},
	{"list, label selector 1 in 10", rowListSelector, 0, 15},
	{"list, label selector 1 in 10, gzip", rowListSelector + gzipSuffix, 0, 15},
	{"list, in pages of 500", rowListPages, 0, 0},
	{"informers' start", rowInformers, 0, 0},
	{"one event to one watcher", "", 0, 6},
	{"64 controllers", rowControllers, 0, 0},
	{"leases and status of 500 nodes", rowNodes, 0, 0},
}

// The highest cost of the first server, as a multiple: over HTTP/2 of that over HTTP/1.1, and of a list with gzip of that without.
const (
	mostOfHTTP1 = 1.25
	mostOfPlain = 1.5
)

// cpu is the processor time of an operation of a row, or 0.
func (g goal) cpu(s *Server, p protocol) time.Duration {
	if g.row == "" {
		if f := s.fanOut(p); f != nil {
			return f.CPU
		}
		return 0
	}
	if r := s.find(g.row, p, g.clients); r != nil && r.Ops > 0 {
		return r.CPU
	}
	return 0
}

// ratioTable prints the first server beside the second, by CPU, its protocols beside each other, and the goals.
func ratioTable(out *strings.Builder, servers []*Server) {
	s := servers[0]
	header := []string{"by CPU, " + s.Name, "HTTP/2 ÷ HTTP/1.1", "gzip ÷ plain, HTTP/2"}
	var peer *Server
	if len(servers) > 1 {
		peer = servers[1]
		header = append(header, peer.Name+" ÷ "+s.Name+", HTTP/2", "goal", "the same, HTTP/1.1")
	}
	fmt.Fprintf(out, "| %s |\n|---|%s\n", strings.Join(header, " | "), strings.Repeat("---|", len(header)-1))
	for _, g := range goals {
		cells := []string{g.name, ratio(g.cpu(s, http2), g.cpu(s, http1), mostOfHTTP1)}
		plain := g
		plain.row = strings.TrimSuffix(g.row, gzipSuffix)
		if plain.row == g.row {
			cells = append(cells, "")
		} else {
			cells = append(cells, ratio(g.cpu(s, http2), plain.cpu(s, http2), mostOfPlain))
		}
		if peer != nil {
			times := ""
			if g.times > 0 {
				times = fmt.Sprintf("%g ×", g.times)
			}
			cells = append(cells, ratio(g.cpu(peer, http2), g.cpu(s, http2), 0), times, ratio(g.cpu(peer, http1), g.cpu(s, http1), 0))
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
	}
}

// ratio prints a ÷ b, in bold if it is above most; 0 means no limit.
func ratio(a, b time.Duration, most float64) string {
	if a == 0 || b == 0 {
		return "–"
	}
	r := float64(a) / float64(b)
	text := fmt.Sprintf("%.2f ×", r)
	if r >= 3 {
		text = fmt.Sprintf("%.1f ×", r)
	}
	if most > 0 && r > most {
		return "**" + text + "**"
	}
	return text
}
