package etcd

import (
	"bytes"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// FuzzKeyValues parses arbitrary values of etcd: the parsed bytes are a part of the input, and a written KeyValue is
// parsed to what it was.
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

// FuzzAnswers parses arbitrary answers of a server: the parsed keys are a part of the answer.
func FuzzAnswers(f *testing.F) {
	for _, answer := range []*etcdserverpb.RangeResponse{
		{},
		{Header: &etcdserverpb.ResponseHeader{ClusterId: 7, Revision: 1 << 62}, More: true},
		{Header: &etcdserverpb.ResponseHeader{ClusterId: 7, Revision: 9}, Count: 2, Kvs: []*mvccpb.KeyValue{
			{Key: []byte("/registry/a"), Value: []byte("k8s\x00"), ModRevision: 3, Lease: 5}, {Key: []byte("/registry/b"), ModRevision: -1, Lease: -1}}},
	} {
		data, err := proto.Marshal(answer)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		s := &liveSnapshot{urls: []string{"http://127.0.0.1:1"}, leases: map[int64]time.Duration{}}
		s.cluster, _, _ = headerOf(answer)
		last, _, err := s.page(t.Context(), answer, func(e Entry) error {
			if !bytes.Contains(answer, []byte(e.Key)) || !bytes.Contains(answer, e.Value) || e.TTL < 0 {
				t.Errorf("%+v is no part of it", e)
			}
			return nil
		})
		if err == nil && !bytes.Contains(answer, []byte(last)) {
			t.Errorf("the last key is %q", last)
		}
	})
}
