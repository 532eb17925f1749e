// Package etcd reads what kube-apiserver has stored: a snapshot of etcd, or the file of one that was stopped; the SQLite database of kine, which is
// k3s's state.db; and either of them while it runs. It writes snapshots of etcd, too. It knows keys and bytes, and nothing of what these mean.
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
	// Revision is the one that wrote it.
	Revision int64
	// TTL is how long the key was to live when it was written, or, of a server, how long it has to live yet; 0: for ever.
	TTL time.Duration
}

// Snapshot is one state of all keys.
type Snapshot interface {
	// Revision is that of the state: none of a key is above it.
	Revision() int64
	// Each calls visit for every key that begins with prefix, in their order. The value is visit's own.
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

// Open opens a file of one of these kinds. It is not changed, nor is a write-ahead log beside it, to which SQLite may add an index (-shm). Errors: ErrUnknownFile;
// that the checksum of a snapshot is wrong, or that a process has the file; those of the file system.
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
