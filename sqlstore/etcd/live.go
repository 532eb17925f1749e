package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
)

// Servers are the addresses of an etcd or a kine.
type Servers struct {
	// URLs have the form https://host:port, http://host:port or unix:///path. If one does not answer, the next one is
	// asked: they belong to one cluster.
	URLs []string
	// TLS is for https. Optional.
	TLS *tls.Config
}

const (
	// askTimeout is the time limit of a request.
	askTimeout = 30 * time.Second
	// pageKeys is how many keys a request asks for, and mostPageBytes bounds the answer: if it would be longer, fewer
	// keys are requested.
	pageKeys, mostPageBytes = 500, 16 << 20

	// busyWait is the first pause for a server that has too much to do, which then doubles, and busyTurns the number of
	// pauses, after which comes a last attempt: 25 s together.
	busyWait, busyTurns = 100 * time.Millisecond, 8

	rangeMethod      = "/etcdserverpb.KV/Range"
	timeToLiveMethod = "/etcdserverpb.Lease/LeaseTimeToLive"

	// The fields of RangeRequest, RangeResponse, ResponseHeader, KeyValue, and of LeaseTimeToLiveRequest and its response:
	// https://github.com/etcd-io/etcd/blob/v3.7.0/api/etcdserverpb/rpc.proto.
	askKey, askEnd, askLimit, askRevision = 1, 2, 3, 4
	answerHeader, answerKVs, answerMore   = 1, 2, 3
	headerCluster, headerRevision         = 1, 3
	modRevisionField                      = 3
	ttlID, ttlSeconds                     = 1, 3
)

// errCompacted says that the state no longer exists.
var errCompacted = errors.New("it has been compacted while it was read, as a kube-apiserver has it done every five minutes: stop the kube-apiservers, or make a snapshot")

// liveSnapshot is the state of servers at a revision, which they keep until it is compacted.
type liveSnapshot struct {
	servers  []*grpc.ClientConn
	urls     []string
	nameless bool // there is no client certificate
	at       int  // the server in use
	cluster  uint64
	revision int64
	leases   map[int64]time.Duration
	wait     time.Duration // the first pause for a busy server
}

// Dial begins to read the present state of servers under a prefix. It changes nothing there. Errors: of the servers, by
// their URLs.
func Dial(ctx context.Context, servers Servers, prefix string) (_ Snapshot, err error) {
	s := &liveSnapshot{urls: servers.URLs, leases: map[int64]time.Duration{}, wait: busyWait}
	s.nameless = servers.TLS == nil || len(servers.TLS.Certificates) == 0 && servers.TLS.GetClientCertificate == nil
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, u := range servers.URLs {
		connection, err := connect(u, servers.TLS)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", u, err)
		}
		s.servers = append(s.servers, connection)
	}
	answer, err := s.ask(ctx, rangeMethod, rangeOf(prefix, after(prefix), 1, 0))
	if err != nil {
		return nil, err
	}
	cluster, revision, err := headerOf(answer)
	if s.cluster, s.revision = cluster, int64(revision); err == nil && s.revision == 0 {
		err = errors.New("it does not say its revision: it is neither an etcd nor a kine")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.urls[s.at], err)
	}
	return s, nil
}

// connect returns a connection, which is opened by the first request.
func connect(server string, secured *tls.Config) (*grpc.ClientConn, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, err
	}
	target, with := "passthrough:///"+u.Host, insecure.NewCredentials()
	switch {
	case u.Scheme == "unix" && u.Host == "" && u.Path != "":
		target = "unix://" + u.Path
	case u.Scheme == "https" && u.Port() != "" && secured == nil:
		with = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	case u.Scheme == "https" && u.Port() != "":
		with = credentials.NewTLS(secured)
	case u.Scheme != "http" || u.Port() == "":
		return nil, errors.New("it has not the form https://host:port, http://host:port or unix:///path")
	}
	return grpc.NewClient(target, grpc.WithTransportCredentials(with), grpc.WithNoProxy(),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(bytesCodec{}), grpc.MaxCallRecvMsgSize(mostPageBytes)))
}

// bytesCodec sends and receives messages in their wire format.
type bytesCodec struct{}

func (bytesCodec) Name() string { return "proto" }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}

func (bytesCodec) Unmarshal(data mem.BufferSlice, v any) error {
	*v.(*[]byte) = data.Materialize()
	return nil
}

// ask calls askOnce until the server is not too busy to answer.
func (s *liveSnapshot) ask(ctx context.Context, method string, question []byte) (answer []byte, err error) {
	wait := s.wait
	for range busyTurns {
		if answer, err = s.askOnce(ctx, method, question); !isBusy(err) {
			return answer, err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), err)
		}
		wait *= 2
	}
	return s.askOnce(ctx, method, question)
}

// isBusy reports whether an etcd has refused a request for now (rpctypes.ErrTooManyRequests). An answer that is too
// long has the same code.
func isBusy(err error) bool {
	return status.Code(err) == codes.ResourceExhausted && strings.Contains(err.Error(), "too many requests")
}

// askOnce sends a request to the server that answered last and, if it fails, to the others.
func (s *liveSnapshot) askOnce(ctx context.Context, method string, question []byte) (answer []byte, _ error) {
	var errs []error
	for range s.servers {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, askTimeout)
			defer cancel()
			return s.servers[s.at].Invoke(ctx, method, &question, &answer)
		}()
		switch code := status.Code(err); {
		case err == nil:
			return answer, nil
		case ctx.Err() != nil || code != codes.Unavailable && code != codes.DeadlineExceeded:
			return nil, s.explained(err)
		}
		errs = append(errs, s.explained(err))
		s.at = (s.at + 1) % len(s.servers)
	}
	return nil, errors.Join(errs...)
}

// explained adds the server's URL to an error, and a remedy where one is known.
func (s *liveSnapshot) explained(err error) error {
	e := &serverError{err, s.urls[s.at] + ": " + said(err)}
	switch status.Code(err) {
	case codes.DeadlineExceeded:
		e.says = fmt.Sprintf("%s: no answer within %v", s.urls[s.at], askTimeout)
	case codes.OutOfRange:
		return fmt.Errorf("%w: revision %d: %w", e, s.revision, errCompacted)
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		e.says += "; a client certificate says who asks, and its user has to have the right to read"
	case codes.Unavailable:
		e.says += s.hint(e.says)
	}
	return e
}

// hint returns a possible reason why a server could not be reached.
func (s *liveSnapshot) hint(says string) string {
	secured := strings.HasPrefix(s.urls[s.at], "https:")
	switch {
	case strings.Contains(says, "dial ") || strings.Contains(says, "x509:"):
	case secured && (strings.Contains(says, "does not look like a TLS handshake") || strings.HasSuffix(says, "handshake failed: EOF")): // an etcd hangs up
		return "; it is no etcd and no kine, or to be asked by http://"
	case secured && s.nameless: // with TLS 1.3 a server may close the connection without an alert
		return "; it was shown no client certificate"
	case !secured && strings.Contains(says, nothingCame):
		return "; it hangs, or is no etcd and no kine"
	case !secured && strings.Contains(says, prefaceFailed):
		return "; it is no etcd and no kine, or to be asked by https://"
	}
	return ""
}

// prefaceFailed begins gRPC's error if the answer does not begin as HTTP/2.
const (
	prefaceFailed = "error reading server preface: "
	nothingCame   = "nothing came"
)

// said returns the message of a status, without gRPC's own words around it.
func said(err error) string {
	says := status.Convert(err).Message()
	if i := strings.LastIndex(says, "connection error: desc = "); i >= 0 {
		if plain, err := strconv.Unquote(strings.TrimPrefix(says[i:], "connection error: desc = ")); err == nil {
			says = plain
		}
	}
	if strings.HasPrefix(says, prefaceFailed) && strings.Contains(says, net.ErrClosed.Error()) { // closed by gRPC, after its timeout
		return prefaceFailed + nothingCame
	}
	return strings.TrimPrefix(strings.TrimPrefix(says, "transport: "), "Error while dialing: ")
}

// serverError is an error of a server, or of reaching it, with a shorter text than gRPC's.
type serverError struct {
	error
	says string
}

func (e *serverError) Error() string { return e.says }
func (e *serverError) Unwrap() error { return e.error }

// rangeOf returns a request for the keys from one on. Revision 0 stands for the last one.
func rangeOf(from, end string, limit int, revision int64) []byte {
	b := protowire.AppendString(protowire.AppendTag(nil, askKey, protowire.BytesType), from)
	b = protowire.AppendString(protowire.AppendTag(b, askEnd, protowire.BytesType), end)
	for _, f := range []struct {
		number protowire.Number
		value  uint64
	}{{askLimit, uint64(limit)}, {askRevision, uint64(revision)}} {
		if f.value != 0 {
			b = protowire.AppendVarint(protowire.AppendTag(b, f.number, protowire.VarintType), f.value)
		}
	}
	return b
}

// headerOf returns the header of an answer. A kine has cluster 0.
func headerOf(answer []byte) (cluster, revision uint64, err error) {
	_, _, parts, err := fields(answer, -1, -1, answerHeader)
	if err != nil {
		return 0, 0, err
	}
	cluster, revision, _, err = fields(parts[0], headerCluster, headerRevision)
	return cluster, revision, err
}

func (s *liveSnapshot) Revision() int64 { return s.revision }

func (s *liveSnapshot) Each(ctx context.Context, prefix string, visit func(Entry) error) error {
	from, end, limit := prefix, after(prefix), pageKeys
	for {
		answer, err := s.ask(ctx, rangeMethod, rangeOf(from, end, limit, s.revision))
		if status.Code(err) == codes.ResourceExhausted && !isBusy(err) && limit > 1 {
			limit /= 2
			continue
		}
		if err != nil {
			return err
		}
		last, more, err := s.page(ctx, answer, visit)
		if err != nil || !more {
			return err
		}
		if last < from {
			return fmt.Errorf("%s: it has more keys, and does not say which", s.urls[s.at])
		}
		from = last + "\x00"
	}
}

// page visits the keys of an answer, and returns the last one.
func (s *liveSnapshot) page(ctx context.Context, answer []byte, visit func(Entry) error) (last string, more bool, err error) {
	cluster, _, err := headerOf(answer)
	if err == nil && cluster != s.cluster {
		err = errors.New("it is not of the cluster of the others")
	}
	if err != nil {
		return "", false, fmt.Errorf("%s: %w", s.urls[s.at], err)
	}
	err = eachField(answer, func(number protowire.Number, varint uint64, part []byte) error {
		switch number {
		case answerMore:
			more = varint != 0
		case answerKVs:
			modified, lease, parts, err := fields(part, modRevisionField, leaseField, keyField, valueField)
			if err != nil {
				return err
			}
			last = string(parts[0])
			e := Entry{Key: last, Value: bytes.Clone(parts[1]), Revision: int64(modified)}
			if e.TTL, err = s.timeToLive(ctx, int64(lease)); err != nil {
				return fmt.Errorf("the lease of %s: %w", last, err)
			}
			return visit(e)
		}
		return nil
	})
	return last, more, err
}

// timeToLive returns the remaining lifetime of a lease, which many keys share. A lease that has ended since has removed
// its keys. kine does not support the request; its lease numbers are the lifetimes in seconds.
func (s *liveSnapshot) timeToLive(ctx context.Context, lease int64) (time.Duration, error) {
	if lease == 0 {
		return 0, nil
	}
	if known, ok := s.leases[lease]; ok {
		return known, nil
	}
	question := protowire.AppendVarint(protowire.AppendTag(nil, ttlID, protowire.VarintType), uint64(lease))
	answer, err := s.ask(ctx, timeToLiveMethod, question)
	seconds := uint64(lease)
	switch code := status.Code(err); {
	case err == nil:
		if seconds, _, _, err = fields(answer, ttlSeconds, -1); err != nil {
			return 0, err
		}
	case code != codes.Unimplemented && (code != codes.Unknown || !strings.Contains(err.Error(), "not supported")):
		return 0, err
	}
	s.leases[lease] = lifetime(int64(seconds))
	return s.leases[lease], nil
}

func (s *liveSnapshot) Close() error {
	var errs []error
	for _, c := range s.servers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
