package etcd

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/protowire"
)

// Writer writes a snapshot of etcd, as 'etcdctl snapshot save' does, for 'etcdutl snapshot restore'. Finish gives its
// file its name. It belongs to one goroutine.
type Writer struct {
	path    string   // of the file that it will become
	partial string   // path of the file until then; empty: there is none
	held    *os.File // keeps the file, if it has no name; nil: it has one
	name    func(path, as string) error
	db      *bbolt.DB
	pending []Entry
	bytes   int
	leases  map[time.Duration]uint64
}

const (
	// writeBytes is how much is written in a transaction, which is held in memory.
	writeBytes = 4 << 20
	// leaseUnit is the precision of expiry times: keys that end within the same unit share a lease, as with
	// kube-apiserver.
	leaseUnit = time.Minute

	createdField, versionField = 2, 4
)

// etcdBuckets are the buckets that an etcd creates when it first starts.
var etcdBuckets = []string{"key", "meta", "lease", "alarm", "cluster", "members", "members_removed", "auth", "authUsers", "authRoles"}

// Create begins a snapshot in the directory of its final file, which must not exist. Errors: fs.ErrExist; those of the
// file system.
func Create(path string) (*Writer, error) {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		if err == nil {
			err = fmt.Errorf("%s: %w", path, fs.ErrExist)
		}
		return nil, err
	}
	return create(path, naming{unnamed, giveName})
}

// naming creates files without a name, and names them.
type naming struct {
	unnamed func(dir string) (f *os.File, path string)
	give    func(path, as string) error
}

// create begins in a file without a name, if such files exist and can be named.
func create(path string, by naming) (_ *Writer, err error) {
	w := &Writer{path: path, name: by.give, leases: map[time.Duration]uint64{}}
	if by.works(path) {
		w.held, w.partial = by.unnamed(filepath.Dir(path))
	}
	if w.held == nil {
		f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // only its owner can read it
		if err != nil {
			return nil, named(err, path)
		}
		w.partial = f.Name()
		if err := f.Close(); err != nil {
			return nil, errors.Join(err, w.drop())
		}
	}
	if w.db, err = bbolt.Open(w.partial, 0o600, &bbolt.Options{NoSync: true, Timeout: lockTimeout, OpenFile: w.open}); err != nil {
		return nil, errors.Join(err, w.drop())
	}
	err = w.db.Update(func(tx *bbolt.Tx) error {
		for _, name := range etcdBuckets {
			if _, err := tx.CreateBucket([]byte(name)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// works tries with an empty file whether a file without a name can be named as a neighbour of path. This may fail
// (security modules and file systems of FUSE refuse it), and if that were found out at the end, all that was written
// would be lost. It is a separate file, since a file can be given a name only once.
func (by naming) works(path string) bool {
	f, opened := by.unnamed(filepath.Dir(path))
	if f == nil {
		return false
	}
	defer f.Close() // it is empty
	tried := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+rand.Text())
	if err := by.give(opened, tried); err != nil {
		return false
	}
	return os.Remove(tried) == nil
}

// Put adds a key. Each key is added at most once.
func (w *Writer) Put(e Entry) error {
	w.pending = append(w.pending, e)
	if w.bytes += len(e.Key) + len(e.Value); w.bytes < writeBytes {
		return nil
	}
	return w.flush()
}

// open opens a file such that its errors name the snapshot's final path. bbolt's errors contain the system's message
// only as text, so the path cannot be replaced later.
func (w *Writer) open(path string, flag int, mode fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag, mode)
	if err != nil {
		return nil, named(err, w.path)
	}
	defer f.Close() // the duplicate is the same file
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "dup", Path: w.path, Err: err}
	}
	return os.NewFile(uintptr(fd), w.path), nil
}

// named replaces the path in an error.
func named(err error, as string) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		at.Path = as
	}
	return err
}

func (w *Writer) flush() error {
	err := w.db.Update(func(tx *bbolt.Tx) error {
		for _, e := range w.pending {
			if err := w.put(tx, e); err != nil {
				return fmt.Errorf("%s: %w", e.Key, err)
			}
		}
		return nil
	})
	clear(w.pending)
	w.pending, w.bytes = w.pending[:0], 0
	return err
}

func (w *Writer) put(tx *bbolt.Tx, e Entry) error {
	lease, err := w.lease(tx, e.TTL)
	if err != nil {
		return err
	}
	number := func(b []byte, field protowire.Number, v uint64) []byte {
		return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), v)
	}
	kv := protowire.AppendString(protowire.AppendTag(nil, keyField, protowire.BytesType), e.Key)
	kv = number(kv, createdField, uint64(e.Revision)) // its creation is not known; only clients that compare it with 0 use it
	kv = number(kv, modRevisionField, uint64(e.Revision))
	kv = number(kv, versionField, 1)
	kv = protowire.AppendBytes(protowire.AppendTag(kv, valueField, protowire.BytesType), e.Value)
	if lease != 0 {
		kv = number(kv, leaseField, lease)
	}
	keys := tx.Bucket([]byte("key"))
	for sub := uint64(0); sub < math.MaxUint32; sub++ { // writes of one transaction have the same revision
		if at := revisionKey(e.Revision, sub); keys.Get(at) == nil {
			return keys.Put(at, kv)
		}
	}
	return errors.New("too many keys have its revision")
}

// revisionKey returns a revision in etcd's encoding.
func revisionKey(revision int64, sub uint64) []byte {
	b := append(binary.BigEndian.AppendUint64(nil, uint64(revision)), '_')
	return binary.BigEndian.AppendUint64(b, sub)
}

// lease returns the lease of all keys with the same lifetime; 0: for ever.
func (w *Writer) lease(tx *bbolt.Tx, lives time.Duration) (uint64, error) {
	if lives <= 0 {
		return 0, nil
	}
	lives = (lives + leaseUnit - 1).Truncate(leaseUnit)
	if id, ok := w.leases[lives]; ok {
		return id, nil
	}
	id := uint64(len(w.leases) + 1)
	w.leases[lives] = id
	b := protowire.AppendVarint(protowire.AppendTag(nil, leaseIDField, protowire.VarintType), id)
	b = protowire.AppendVarint(protowire.AppendTag(b, leaseTTLField, protowire.VarintType), uint64(lives/time.Second))
	return id, tx.Bucket([]byte("lease")).Put(binary.BigEndian.AppendUint64(nil, id), b)
}

// Finish makes a snapshot of the added keys. An etcd restored from it goes on above a revision, and earlier watches are
// told that it was compacted. After that there is nothing to Close. Errors: fs.ErrExist if the name has been taken
// meanwhile; that file stays as it is. An error after the snapshot has got its name says that it is complete.
func (w *Writer) Finish(revision int64) error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.db.Update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		compacted := revisionKey(revision, 0)
		return errors.Join(meta.Put([]byte("scheduledCompactRev"), compacted), meta.Put([]byte("finishedCompactRev"), compacted),
			meta.Put([]byte("consistent_index"), binary.BigEndian.AppendUint64(nil, 1)), meta.Put([]byte("term"), binary.BigEndian.AppendUint64(nil, 1)))
	}); err != nil {
		return err
	}
	if err := w.db.Close(); err != nil {
		return err
	}
	if err := w.appendSum(); err != nil {
		return err
	}
	if err := w.publish(); err != nil {
		return err
	}
	err := errors.Join(w.drop(), syncNames(filepath.Dir(w.path)))
	w.partial = ""
	if err != nil {
		return fmt.Errorf("%s is whole and has its name, but what comes after that failed: %w", w.path, err)
	}
	return nil
}

// publish gives the file its final name, beside its present one.
func (w *Writer) publish() error {
	err := w.name(w.partial, w.path)
	if err == nil || errors.Is(err, fs.ErrExist) || w.held != nil {
		return err
	}
	// Some file systems do not support a second name of a file. Then the name is reserved first, so that no other file
	// is replaced.
	f, err := os.OpenFile(w.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Close(), os.Rename(w.partial, w.path)); err != nil {
		return errors.Join(err, os.Remove(w.path))
	}
	return nil
}

// drop removes the unfinished file.
func (w *Writer) drop() error {
	if w.held != nil {
		return w.held.Close()
	}
	if err := os.Remove(w.partial); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// appendSum appends the checksum to the file, and flushes both to the disk.
func (w *Writer) appendSum() (err error) {
	f, err := w.open(w.partial, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return err
	}
	if _, err := f.Write(hash.Sum(nil)); err != nil {
		return err
	}
	return f.Sync()
}

// syncNames flushes the names in a directory to the disk, if the system supports that.
func syncNames(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // some file systems report it as unsupported this way
		err = nil
	}
	return errors.Join(err, f.Close())
}

// Close discards an unfinished snapshot.
func (w *Writer) Close() error {
	if w.partial == "" {
		return nil
	}
	return errors.Join(w.db.Close(), w.drop())
}
