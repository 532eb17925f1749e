// Package etcdtest writes files like those of etcd and kine, for tests.
package etcdtest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"os"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	_ "modernc.org/sqlite" // kine's database
)

// Put is a write. Writes have the revisions 2, 3 and so on.
type Put struct {
	Key     string
	Value   []byte // nil: the key is deleted
	Seconds int64  // lifetime; 0: for ever
}

// Bolt writes the file of an etcd.
func Bolt(path string, puts ...Put) error {
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err != nil {
			return err
		}
		leases, err := tx.CreateBucket([]byte("lease"))
		if err != nil {
			return err
		}
		for i, p := range puts {
			revision := uint64(i + 2)
			at := append(binary.BigEndian.AppendUint64(nil, revision), '_', 0, 0, 0, 0, 0, 0, 0, 0)
			kv := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte(p.Key))
			switch {
			case p.Value == nil:
				at = append(at, 't')
			default:
				kv = protowire.AppendVarint(protowire.AppendTag(kv, 3, protowire.VarintType), revision)
				kv = protowire.AppendBytes(protowire.AppendTag(kv, 5, protowire.BytesType), p.Value)
			}
			if p.Seconds > 0 {
				kv = protowire.AppendVarint(protowire.AppendTag(kv, 6, protowire.VarintType), revision)
				lease := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), revision)
				lease = protowire.AppendVarint(protowire.AppendTag(lease, 2, protowire.VarintType), uint64(p.Seconds))
				if err := leases.Put(binary.BigEndian.AppendUint64(nil, revision), lease); err != nil {
					return err
				}
			}
			if err := keys.Put(at, kv); err != nil {
				return err
			}
		}
		return nil
	})
	return errors.Join(err, db.Close())
}

// Sum appends the checksum to a file, as 'etcdctl snapshot save' does.
func Sum(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	return os.WriteFile(path, append(data, sum[:]...), 0o600)
}

// Kine writes the database of a kine.
func Kine(path string, puts ...Put) (err error) {
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ctx := context.Background()
	if _, err := db.ExecContext(ctx, `CREATE TABLE kine (id INTEGER PRIMARY KEY AUTOINCREMENT, name INTEGER, created INTEGER, deleted INTEGER,
create_revision INTEGER, prev_revision INTEGER, lease INTEGER, value BLOB, old_value BLOB)`); err != nil {
		return err
	}
	for i, p := range puts {
		if _, err := db.ExecContext(ctx, "INSERT INTO kine (id, name, created, deleted, lease, value) VALUES ($1, $2, 0, $3, $4, $5)",
			i+2, p.Key, p.Value == nil, p.Seconds, p.Value); err != nil {
			return err
		}
	}
	return nil
}
