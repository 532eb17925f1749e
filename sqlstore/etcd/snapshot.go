// Package etcd reads the stored data of a kube-apiserver: a snapshot of etcd, or the file of a stopped etcd; the SQLite
// database of kine, which is k3s's state.db; and either of them while it runs. It also writes snapshots of etcd. It
// handles keys and bytes without knowing their meaning.
package etcd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Entry is a key with its last value.
type Entry struct {
	Key   string
	Value []byte
	// Revision is the revision of the last write.
	Revision int64
	// TTL is the lifetime of the key from its last write on or, from a server, the remaining lifetime; 0: for ever.
	TTL time.Duration
}

// maxSeconds bounds the lifetime of a key: a hundred years.
const maxSeconds = 100 * 365 * 24 * 60 * 60

// lifetime is the lifetime of a key whose lease has so many seconds, which may be any number.
func lifetime(seconds int64) time.Duration {
	return time.Duration(min(max(seconds, 1), maxSeconds)) * time.Second
}

// Snapshot is one state of all keys.
type Snapshot interface {
	// Revision is the revision of the state: no key has a higher one.
	Revision() int64
	// Each calls visit for every key that begins with prefix, in their order. visit may keep the value.
	Each(ctx context.Context, prefix string, visit func(Entry) error) error
	Close() error
}

// ErrUnknownFile says that a file is neither etcd's nor kine's.
var ErrUnknownFile = errors.New("is neither a snapshot of etcd nor a SQLite database of kine")

const (
	sqliteMagic = "SQLite format 3\x00"
	boltMagic   = "\xed\xda\x0c\xed" // little endian, after the header of the first page
	boltMagicAt = 16
)

// Open opens a file of one of these kinds. It does not change the file or a write-ahead log beside it, but SQLite may
// add an index of that (-shm). Errors: ErrUnknownFile; an error if the checksum of a snapshot is wrong, or if a process
// has the file; those of the file system.
func Open(ctx context.Context, path string) (Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	head := make([]byte, 32)
	_, err = io.ReadFull(f, head)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	var s Snapshot
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = ErrUnknownFile
	case err != nil:
	case string(head[:len(sqliteMagic)]) == sqliteMagic:
		s, err = openKine(ctx, path)
	case string(head[boltMagicAt:boltMagicAt+len(boltMagic)]) == boltMagic:
		s, err = openBolt(path)
	default:
		err = ErrUnknownFile
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}
