package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apiserver/pkg/storage/value"
	"k8s.io/utils/clock"
)

// Options say which database a Store uses, and how. Only URL is required.
type Options struct {
	// URL names the database: "sqlite://" followed by the path of a file, which is created if it does not exist, or a
	// "postgres://" URL, whose database has to exist.
	URL string
	// RereadURL returns the present URL of a Postgres, if the URL is kept in a place where its password is changed;
	// nil: the URL never changes. Only the user, the password and the certificates are used, for new connections.
	RereadURL func() (string, error)
	// Schema is the schema of a Postgres database that has the tables; it is created if it does not exist. Empty means
	// the first one of the search path. It allows several control planes in one database.
	Schema string
	// AwaitTimeout is how long each step of Open, and Store.Await, wait for a Postgres that cannot be reached or does
	// not take writes yet, and Store.Await for KeysMissing, from its first failure; 0 means that they do not wait.
	AwaitTimeout time.Duration
	// AwaitMove makes Open wait, for as long as it takes, while a Move fills the database.
	AwaitMove bool
	// HistoryAge is how long a change stays in history at least; 0 means DefaultHistoryAge. The time in which the store
	// was not open does not count, so that clients find their place again after the server was away.
	HistoryAge time.Duration
	// HistorySize bounds history in bytes of objects, before its age does; 0 means DefaultHistorySize.
	HistorySize int64
	// ObjectHistory says which writes are kept for people; the zero value: none.
	ObjectHistory ObjectHistory
	// MaxObjectBytes bounds each object, in bytes of resources.Draft.Size, managedFields included; 0 means no bound.
	MaxObjectBytes int
	// LogSize bounds the part of history that is kept in memory, in bytes of the replaced or deleted objects that only
	// it keeps; 0 means DefaultLogSize.
	LogSize int64
	// Packed are resources whose large objects are kept compressed in memory, once the store is idle
	// (Store.DefragmentHeap): a read of 100 KB then takes half a millisecond more.
	Packed []string
	// Synchronous is SQLite's setting of that name; empty means "full". With "normal", a crash of the machine (not of
	// the process) may lose the last acknowledged writes, but no revision is assigned twice: unless the store was
	// closed, the counter jumps when it is opened.
	Synchronous string
	// Transformers encrypt objects on their way to the database and decrypt them on the way back; nil: nothing is
	// encrypted. They are called in the middle of a batch. See seal.go.
	Transformers value.ResourceTransformers
	// KeysMissing tells whether Transformers lack keys for now, because a KMS plugin does not answer; nil: they have them
	// all.
	KeysMissing func() bool
	// Logger gets messages for the operator; nil means slog.Default().
	Logger *slog.Logger
	// Registerer gets the metrics of the store; nil means none.
	Registerer prometheus.Registerer
	// Clock is used for ages and lifetimes; nil means the real clock.
	Clock clock.Clock
	// Begin is called when this process may open the store, before the steps that may take long: connecting to
	// Postgres, and reading all objects. It is not called if another process has the file. Its error ends Open. Nil:
	// nothing is called.
	Begin func() error
	// Progress records how far Open has come; nil: it is not recorded.
	Progress *Progress

	// limits are shorter in tests; zero means usualLimits.
	limits limits
	sealer *sealer
	// timelines are those that a command has seen; nil: it has not connected yet.
	timelines *timelines
}

// The defaults of Options.
const (
	DefaultHistoryAge  = 5 * time.Minute
	DefaultHistorySize = 512 << 20
	DefaultLogSize     = 96 << 20 // 24,000 updates of objects of 3.5 KB; the creation of an object adds 192 bytes to it
)

const sqliteScheme = "sqlite://"

func (o *Options) complete() error {
	if o.HistoryAge == 0 {
		o.HistoryAge = DefaultHistoryAge
	}
	if o.HistorySize == 0 {
		o.HistorySize = DefaultHistorySize
	}
	if o.LogSize == 0 {
		o.LogSize = DefaultLogSize
	}
	if o.HistoryAge < 0 || o.HistorySize < 0 || o.LogSize < 0 {
		return errors.New("the age and the sizes of history must not be negative")
	}
	if err := o.ObjectHistory.complete(); err != nil {
		return err
	}
	switch o.Synchronous {
	case "":
		o.Synchronous = "full"
	case "off", "normal", "full", "extra":
	default:
		return fmt.Errorf("synchronous is off, normal, full or extra, not %q", o.Synchronous)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Begin == nil {
		o.Begin = func() error { return nil }
	}
	if o.Progress == nil {
		o.Progress = &Progress{}
	}
	o.sealer = &sealer{transformers: o.Transformers}
	if o.limits == (limits{}) {
		o.limits = usualLimits
	}
	return nil
}

// pathMost is the maximum length of a database's path in bytes: SQLite allows 512, and reserves 8 for the suffixes of the files beside it.
const pathMost = 504

// sqlitePath returns the path of the file that a URL names.
func sqlitePath(url string) (string, error) { return boundedPath(url, pathMost) }

// sqliteTargetPath is sqlitePath for a file that has a longer name while it is filled.
func sqliteTargetPath(url string) (string, error) { return boundedPath(url, pathMost-len(unfinished)) }

func boundedPath(url string, most int) (string, error) {
	path, err := resolvedPath(url)
	if err == nil && len(path) > most {
		err = fmt.Errorf("datastore: the path of the database has %d bytes, more than the %d that it may have: %s", len(path), most, path)
	}
	return path, err
}

// mostLinks is how many dangling links are followed in a row.
const mostLinks = 40

// resolvedPath returns the absolute path of the file that a URL names, with links resolved as far as they exist: two
// processes must agree on the place of the lock. A link may point to a file that does not exist yet: SQLite creates it
// at the link's target, with its log beside it.
func resolvedPath(url string) (string, error) {
	path, err := filepath.Abs(strings.TrimPrefix(url, sqliteScheme))
	if err != nil {
		return "", fmt.Errorf("datastore: %w", err)
	}
	for range mostLinks {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real, nil
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(path))
		if err != nil {
			return path, nil //nolint:nilerr // the file will be created
		}
		path = filepath.Join(dir, filepath.Base(path))
		to, err := os.Readlink(path)
		if err != nil {
			return path, nil //nolint:nilerr // there is nothing yet
		}
		if path = to; !filepath.IsAbs(to) {
			path = filepath.Join(dir, to)
		}
	}
	return path, nil
}
