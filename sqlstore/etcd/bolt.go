package etcd

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/encoding/protowire"
)

// boltSnapshot is the file of an etcd: https://etcd.io/docs/v3.6/learning/persistent-storage-files/. Its bucket key
// has, by revision, every write that was not compacted, so the last one of each key is looked for first.
type boltSnapshot struct {
	db       *bbolt.DB
	last     map[string]string // the last revision of each key, as the key of the bucket
	ttls     map[int64]time.Duration
	revision int64
	summed   bool // it ends with a checksum
}

// LacksLog reports whether a snapshot is the file of an etcd itself. Writes that the etcd has acknowledged get there
// some later, at the latest when it stops: of one that was killed, the last ones are in its write-ahead log alone.
func LacksLog(s Snapshot) bool {
	b, ok := s.(*boltSnapshot)
	return ok && !b.summed
}

const (
	lockTimeout = time.Second // for an etcd that has the file to release it
	// revisionBytes is the length of a revision: its main part, an underscore, and its number within a transaction. A
	// deletion's has a t after that.
	revisionBytes = 8 + 1 + 8
	// The fields of mvccpb.KeyValue and of leasepb.Lease.
	keyField, valueField, leaseField = 1, 5, 6
	leaseIDField, leaseTTLField      = 1, 2
)

func openBolt(path string) (_ *boltSnapshot, err error) {
	summed, err := checkSum(path)
	if err != nil {
		return nil, err
	}
	s := &boltSnapshot{last: map[string]string{}, ttls: map[int64]time.Duration{}, summed: summed}
	err = guarded(func() (err error) {
		s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
		return err
	})
	if errors.Is(err, berrors.ErrTimeout) {
		err = errors.New("an etcd has this file: stop it, or make a snapshot with 'etcdctl snapshot save'")
	}
	if err != nil {
		return nil, err
	}
	if err := guarded(func() error { return s.read(path) }); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// read checks that the file is sound, and finds its content.
func (s *boltSnapshot) read(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // it was only read
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return s.db.View(func(tx *bbolt.Tx) error {
		if err := check(tx, file, info.Size()); err != nil {
			return err
		}
		return s.index(tx)
	})
}

// checkSum verifies the checksum that 'etcdctl snapshot save' appends to a file; the file of an etcd has none.
func checkSum(path string) (summed bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, err := f.Stat()
	if err != nil || info.Size()%512 != sha256.Size {
		return false, err
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, f, info.Size()-sha256.Size); err != nil {
		return false, err
	}
	sum, err := io.ReadAll(f)
	if err == nil && !bytes.Equal(sum, hash.Sum(nil)) {
		err = errors.New("the checksum at the end of the snapshot is wrong: it is damaged")
	}
	return true, err
}

// index finds the last write of each key.
func (s *boltSnapshot) index(tx *bbolt.Tx) error {
	if leases := tx.Bucket([]byte("lease")); leases != nil {
		if err := leases.ForEach(func(_, value []byte) error {
			id, ttl, _, err := fields(value, leaseIDField, leaseTTLField)
			s.ttls[int64(id)] = lifetime(int64(ttl))
			return err
		}); err != nil {
			return fmt.Errorf("read the leases: %w", err)
		}
	}
	keys := tx.Bucket([]byte("key"))
	if keys == nil {
		return errors.New("the file has no keys of an etcd")
	}
	return keys.ForEach(func(at, value []byte) error {
		if len(at) < revisionBytes {
			return fmt.Errorf("a revision %x is too short", at)
		}
		key, err := keyOf(value)
		if err != nil {
			return fmt.Errorf("the write at revision %x: %w", at, err)
		}
		s.revision = max(s.revision, int64(binary.BigEndian.Uint64(at)))
		if len(at) > revisionBytes {
			delete(s.last, key)
		} else {
			s.last[key] = string(at)
		}
		return nil
	})
}

// keyOf returns the key of a KeyValue.
func keyOf(message []byte) (string, error) {
	_, _, parts, err := fields(message, -1, -1, keyField)
	return string(parts[0]), err
}

// fields returns two numbers of a message, and some of its byte fields.
func fields(message []byte, first, second protowire.Number, wanted ...protowire.Number) (a, b uint64, parts [][]byte, err error) {
	parts = make([][]byte, len(wanted))
	err = eachField(message, func(number protowire.Number, varint uint64, part []byte) error {
		if i := slices.Index(wanted, number); part != nil && i >= 0 {
			parts[i] = part
		}
		switch {
		case part != nil:
		case number == first:
			a = varint
		case number == second:
			b = varint
		}
		return nil
	})
	return a, b, parts, err
}

// eachField calls visit for the fields of a message that are numbers (with a nil part) or bytes.
func eachField(message []byte, visit func(number protowire.Number, varint uint64, part []byte) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var varint uint64
		var part []byte
		switch kind {
		case protowire.VarintType:
			varint, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			part, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if kind != protowire.VarintType && kind != protowire.BytesType {
			continue
		}
		if err := visit(number, varint, part); err != nil {
			return err
		}
	}
	return nil
}

func (s *boltSnapshot) Revision() int64 { return s.revision }

func (s *boltSnapshot) Each(ctx context.Context, prefix string, visit func(Entry) error) error {
	var keys []string
	for key := range s.last {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return s.db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		for _, key := range keys {
			if err := ctx.Err(); err != nil {
				return err
			}
			at := []byte(s.last[key])
			var e Entry
			if err := guarded(func() error {
				lease, _, parts, err := fields(bucket.Get(at), leaseField, -1, valueField)
				e = Entry{Key: key, Value: bytes.Clone(parts[0]), Revision: int64(binary.BigEndian.Uint64(at)), TTL: s.ttls[int64(lease)]}
				return err
			}); err != nil {
				return fmt.Errorf("the value of %s: %w", key, err)
			}
			if err := visit(e); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *boltSnapshot) Close() error { return s.db.Close() }
