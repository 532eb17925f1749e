package etcd

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
)

// FuzzKeyValues reads what an etcd may have stored of a key: bytes that are taken from it are a part of it, and what is written as a
// KeyValue is read as it was.
func FuzzKeyValues(f *testing.F) {
	message := func(key, value []byte, lease uint64) []byte {
		b := protowire.AppendBytes(protowire.AppendTag(nil, keyField, protowire.BytesType), key)
		b = protowire.AppendBytes(protowire.AppendTag(b, valueField, protowire.BytesType), value)
		return protowire.AppendVarint(protowire.AppendTag(b, leaseField, protowire.VarintType), lease)
	}
	f.Add(message([]byte("/registry/a"), []byte("k8s\x00"), 7), uint64(1))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), uint64(1<<63))
	f.Add([]byte("\x0b\x0b\x0c"), uint64(0))
	f.Add([]byte(nil), uint64(0))
	f.Fuzz(func(t *testing.T, stored []byte, lease uint64) {
		if key, err := keyOf(stored); err == nil && !bytes.Contains(stored, []byte(key)) {
			t.Errorf("the key is %q", key)
		}
		_, _, parts, err := fields(stored, leaseField, -1, keyField, valueField)
		for _, part := range parts {
			if err == nil && !bytes.Contains(stored, part) {
				t.Errorf("%q is no part of it", part)
			}
		}
		have, _, parts, err := fields(message(stored, stored, lease), leaseField, -1, keyField, valueField)
		if err != nil || have != lease || !bytes.Equal(parts[0], stored) || !bytes.Equal(parts[1], stored) {
			t.Errorf("%d, %q, %v", have, parts, err)
		}
	})
}
