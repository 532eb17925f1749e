package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rowlock/rowlock/e2e/harness"
)

// dayWatches is how many watches of each type are open all day.
const dayWatches = 5

// dayTypes are the collections that the day changes.
var dayTypes = []string{podsPath, leasesPath, eventsPath, nodesPath}

// readers starts clients that read all day, until ctx ends: watches, slow paged lists at an old revision, and backups if they are wanted.
// r.backupFailed gets the reason of a failed backup.
func (w *dayWork) readers(ctx context.Context, all *sync.WaitGroup, r *dayResult) error {
	crew, err := w.crew(w.Protocols[0], dayWatches*len(dayTypes)+1)
	if err != nil {
		return err
	}
	if err := (load{clients: crew}).connect(ctx); err != nil {
		return err
	}
	for i, c := range crew[1:] {
		all.Go(func() { follow(ctx, c, dayTypes[i%len(dayTypes)]) })
	}
	all.Go(func() { r.lists = w.pageSlowly(ctx, crew[0]) })
	if w.oldBackups {
		all.Go(func() { r.backups, r.backupFailed = w.backup(ctx) })
	}
	return nil
}

// follow watches, and watches anew when the watch ends.
func follow(ctx context.Context, c *client, path string) {
	for ctx.Err() == nil {
		response, err := c.open(ctx, request{method: http.MethodGet, path: path + "?watch=true&allowWatchBookmarks=true"})
		if err == nil {
			_, _ = c.discard(response.Body)
			response.Body.Close()
		}
		_ = pause(ctx, 10*time.Millisecond)
	}
}

// pageSlowly lists the pods in pages, so slowly that each page is of an older revision, until the history no longer reaches back, and then begins
// anew. It returns the number of lists that it has begun.
func (w *dayWork) pageSlowly(ctx context.Context, c *client) (lists int) {
	const pages = 20
	for next := ""; ctx.Err() == nil; {
		if next == "" {
			lists++
		}
		path := fmt.Sprintf("%s?limit=%d&continue=%s", podsPath, w.cluster*dayPods/pages, next)
		next = ""
		if _, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true}); err == nil {
			next = continueOf(c.body.Bytes())
		}
		_ = pause(ctx, w.scaled(5*time.Minute)/pages)
	}
	return lists
}

// backup makes backups, one after the other.
func (w *dayWork) backup(ctx context.Context) (made int, err error) {
	file := filepath.Join(w.dir, "backup")
	for ctx.Err() == nil {
		c := exec.CommandContext(ctx, harness.Binary("rowlock"), "backup", "--data-dir", w.dir, file)
		if said, err := c.CombinedOutput(); err != nil && ctx.Err() == nil {
			return made, fmt.Errorf("backup: %w\n%s", err, said)
		}
		made++
		_ = os.Remove(file)
	}
	return made, nil
}

// dayFiles are the sizes of SQLite's files, and the largest sizes seen.
type dayFiles struct{ database, log, mostDatabase, mostLog int64 }

func (f *dayFiles) look(dir string) {
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	f.database, f.log = size("rowlock.db"), size("rowlock.db-wal")
	f.mostDatabase, f.mostLog = max(f.mostDatabase, f.database), max(f.mostLog, f.log)
}

// liveBytes is the size of the objects in the collections, as lists show them.
func (w *dayWork) liveBytes(ctx context.Context) (total int64, err error) {
	for _, path := range dayTypes {
		size, err := w.admin.do(ctx, request{method: http.MethodGet, path: path})
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}

// samples are the metrics of a server, by their names and labels.
type samples map[string]float64

func (b *bench) samples(ctx context.Context) (samples, error) {
	if _, err := b.admin.do(ctx, request{method: http.MethodGet, path: "/metrics", accept: "text/plain", keep: true}); err != nil {
		return nil, err
	}
	return parseSamples(b.admin.body.String()), nil
}

func parseSamples(text string) samples {
	all := samples{}
	for line := range strings.Lines(text) {
		at := strings.LastIndexByte(line, ' ')
		if value, err := strconv.ParseFloat(strings.TrimSpace(line[max(at, 0):]), 64); err == nil && at > 0 {
			all[line[:at]] = value
		}
	}
	return all
}

// sum adds up all samples of a name.
func (s samples) sum(name string) (total float64) {
	for key, value := range s {
		if key == name || strings.HasPrefix(key, name+"{") {
			total += value
		}
	}
	return total
}

// beyond returns how many observations of a histogram were above a bucket's bound, which is written as in the metric.
func (s samples) beyond(name, label, bound string) (more, all float64) {
	with := func(labels string) string { return strings.Trim(label+","+labels, ",") }
	bucket := s[fmt.Sprintf("%s_bucket{%s}", name, with(fmt.Sprintf("le=%q", bound)))]
	for key, value := range s {
		if key == name+"_count" && label == "" || key == fmt.Sprintf("%s_count{%s}", name, label) {
			all = value
		}
	}
	return all - bucket, all
}
