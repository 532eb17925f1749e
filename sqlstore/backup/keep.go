package backup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"

	"github.com/rowlock/rowlock/resources/files"
)

// Keeper makes a backup at intervals, and removes old ones.
type Keeper struct {
	// Dir is the directory of the backups. It is created if needed, and has backups of this Keeper only.
	Dir string
	// Every is the interval, Keep how many are kept at most.
	Every time.Duration
	Keep  int
	// Origin returns the origin of a backup.
	Origin func() (Origin, error)
	Logger *slog.Logger
	Clock  clock.Clock

	metrics *keeperMetrics
}

// The beginning and the end of a backup's name. In between is the time, in a form whose order is that of names.
const (
	namePrefix = "rowlock-"
	nameSuffix = ".backup"
	nameTime   = "20060102T150405.000Z"
)

// retryAfter is how long after a failure the next attempt is at the latest.
const retryAfter = 10 * time.Minute

type keeperMetrics struct {
	last, bytes, seconds prometheus.Gauge
	failures             prometheus.Counter
}

// Register registers the metrics of a Keeper before it runs.
func (k *Keeper) Register(r prometheus.Registerer) error {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	k.metrics = &keeperMetrics{
		last:    gauge("rowlock_backup_last_success_timestamp_seconds", "When the last backup that succeeded was begun; 0: there is none."),
		bytes:   gauge("rowlock_backup_last_bytes", "Size of the last backup."),
		seconds: gauge("rowlock_backup_last_seconds", "How long the last backup took."),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "rowlock_backup_failures_total",
			Help: "Backups that failed, or whose removal of old backups failed."}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{k.metrics.last, k.metrics.bytes, k.metrics.seconds, k.metrics.failures} {
		errs = append(errs, r.Register(c))
	}
	return errors.Join(errs...)
}

// Run makes backups until ctx ends: the first one when the interval has passed since the newest one in the directory. A
// failure is logged and visible in a metric, and the backup is tried again.
func (k *Keeper) Run(ctx context.Context) {
	timer := k.Clock.NewTimer(k.first())
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		next := k.Every
		if err := k.once(ctx); err != nil && ctx.Err() == nil {
			k.metrics.failures.Inc()
			k.newest() // for the metric
			next = min(k.Every, retryAfter)
			k.Logger.Error("the backup failed", "dir", k.Dir, "error", err, "nextIn", next)
		}
		timer.Reset(next)
	}
}

// first returns the time until the first backup.
func (k *Keeper) first() time.Duration {
	newest, found := k.newest()
	if !found {
		return 0
	}
	return max(0, newest.Add(k.Every).Sub(k.Clock.Now()))
}

// newest returns the time of the newest existing backup, from its name, and sets the metric to it: a clock that was
// ahead may have set another time.
func (k *Keeper) newest() (made time.Time, found bool) {
	now := k.Clock.Now()
	names, err := k.names(now)
	if err != nil {
		return made, false // the directory may be back soon
	}
	last := 0.0
	if len(names) > 0 {
		made, err = timeOf(names[0])
		if found = err == nil && !made.After(now); found {
			last = float64(made.UnixMilli()) / 1000
		}
	}
	k.metrics.last.Set(last)
	return made, found
}

// once makes a backup and removes those beyond Keep.
func (k *Keeper) once(ctx context.Context) error {
	if err := files.MakeDir(k.Dir); err != nil {
		return err
	}
	if err := k.clean(); err != nil {
		return err
	}
	o, err := k.Origin()
	if err != nil {
		return err
	}
	began := k.Clock.Now()
	path := filepath.Join(k.Dir, namePrefix+began.UTC().Format(nameTime)+nameSuffix)
	s, err := WriteFile(ctx, path, o)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	took := k.Clock.Since(began)
	k.metrics.last.Set(float64(began.UnixMilli()) / 1000)
	k.metrics.bytes.Set(float64(info.Size()))
	k.metrics.seconds.Set(took.Seconds())
	k.Logger.Info("made a backup", "file", path, "revision", s.Revision, "objects", s.Objects, "bytes", info.Size(), "took", took)
	if s.Moved != "" {
		k.Logger.Warn("the backup is of what the store was before it moved: make backups where it is now", "file", path, "movedTo", s.Moved)
	}
	return k.prune(began)
}

// clean removes the partial files of a process that was killed while it made a backup.
func (k *Keeper) clean() error {
	entries, err := os.ReadDir(k.Dir)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasPrefix(name, "."+namePrefix) && strings.HasSuffix(name, partial) {
			err = errors.Join(err, os.Remove(filepath.Join(k.Dir, name)))
		}
	}
	return err
}

// prune is called after a backup has succeeded: while backups fail, none is removed. now is the time of that backup,
// which is the newest one, also if the clock was set back while it was made.
func (k *Keeper) prune(now time.Time) error {
	names, err := k.names(now)
	if err != nil {
		return err
	}
	for _, name := range names[min(k.Keep, len(names)):] {
		if rerr := os.Remove(filepath.Join(k.Dir, name)); rerr != nil {
			err = errors.Join(err, fmt.Errorf("remove an old backup: %w", rerr))
		}
	}
	return err
}

// names returns the names of the backups, the newest first, and at the end those with times after now: backups made
// while the clock was ahead must neither outlive later ones nor pass for the newest. Other files are ignored.
func (k *Keeper) names(now time.Time) ([]string, error) {
	entries, err := os.ReadDir(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, entry := range entries {
		if _, terr := timeOf(entry.Name()); terr == nil && entry.Type().IsRegular() {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(b, a) })
	last := namePrefix + now.UTC().Format(nameTime) + nameSuffix
	ahead := slices.IndexFunc(names, func(name string) bool { return name <= last })
	if ahead > 0 {
		names = slices.Concat(names[ahead:], names[:ahead])
	}
	return names, err
}

func timeOf(name string) (time.Time, error) {
	name, prefixed := strings.CutPrefix(name, namePrefix)
	name, suffixed := strings.CutSuffix(name, nameSuffix)
	if !prefixed || !suffixed {
		return time.Time{}, errors.New("not a backup of these")
	}
	return time.Parse(nameTime, name)
}
