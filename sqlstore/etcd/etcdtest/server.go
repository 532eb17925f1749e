package etcdtest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
)

// errKineLeases is the error of a kine.
var errKineLeases = errors.New("lease time to live is not supported")

// Server answers like an etcd to requests that read: Range and LeaseTimeToLive.
type Server struct {
	// Address is the address that it listens on.
	Address string
	// Kine makes it answer like a kine, where that differs.
	Kine bool
	// Cluster is the number of its cluster.
	Cluster uint64
	// Asked, if set, is called with every Range; its error is the answer.
	Asked func(*etcdserverpb.RangeRequest) error
	// Leases, if set, is the answer to every LeaseTimeToLive.
	Leases error

	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedLeaseServer
	grpc *grpc.Server

	mu        sync.Mutex
	puts      []Put
	compacted int64
}

// Serve starts a server on loopback, which ends with the test. It serves TLS if secured is set.
func (s *Server) Serve(t testing.TB, secured *tls.Config, puts ...Put) {
	t.Helper()
	s.puts = puts
	var options []grpc.ServerOption
	if secured != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(secured)))
	}
	s.grpc = grpc.NewServer(options...)
	etcdserverpb.RegisterKVServer(s.grpc, s)
	etcdserverpb.RegisterLeaseServer(s.grpc, s)
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Address = listener.Addr().String()
	go s.grpc.Serve(listener) //nolint:errcheck // it ends with Stop
	t.Cleanup(s.grpc.Stop)
}

// Stop ends the server, with its connections.
func (s *Server) Stop() { s.grpc.Stop() }

// Write adds writes.
func (s *Server) Write(puts ...Put) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.puts = append(s.puts, puts...)
}

// Forget compacts the states before the last one.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.compacted = int64(len(s.puts) + 1)
}

// Range implements etcdserverpb.KVServer.
func (s *Server) Range(_ context.Context, r *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	if s.Asked != nil {
		if err := s.Asked(r); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	current := int64(len(s.puts) + 1)
	at := r.Revision
	switch {
	case at == 0:
		at = current
	case at < s.compacted:
		return nil, rpctypes.ErrGRPCCompacted
	}
	last := map[string]*mvccpb.KeyValue{}
	for i, p := range s.puts[:at-1] {
		revision := int64(i + 2)
		switch {
		case p.Key < string(r.Key) || p.Key >= string(r.RangeEnd):
		case p.Value == nil:
			delete(last, p.Key)
		default:
			last[p.Key] = &mvccpb.KeyValue{Key: []byte(p.Key), Value: p.Value, ModRevision: revision, CreateRevision: revision, Version: 1}
			if last[p.Key].Lease = revision; p.Seconds == 0 || s.Kine {
				last[p.Key].Lease = p.Seconds
			}
		}
	}
	answer := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: s.Cluster, Revision: current}, Count: int64(len(last))}
	for _, kv := range last {
		answer.Kvs = append(answer.Kvs, kv)
	}
	slices.SortFunc(answer.Kvs, func(a, b *mvccpb.KeyValue) int { return strings.Compare(string(a.Key), string(b.Key)) })
	if r.Limit > 0 && int64(len(answer.Kvs)) > r.Limit {
		answer.Kvs, answer.More = answer.Kvs[:r.Limit], true
	}
	return answer, nil
}

// LeaseTimeToLive implements etcdserverpb.LeaseServer.
func (s *Server) LeaseTimeToLive(_ context.Context, r *etcdserverpb.LeaseTimeToLiveRequest) (*etcdserverpb.LeaseTimeToLiveResponse, error) {
	switch {
	case s.Kine:
		return nil, errKineLeases
	case s.Leases != nil:
		return nil, s.Leases
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	granted := s.puts[r.ID-2].Seconds
	return &etcdserverpb.LeaseTimeToLiveResponse{Header: &etcdserverpb.ResponseHeader{}, ID: r.ID, TTL: granted - 1, GrantedTTL: granted}, nil
}
