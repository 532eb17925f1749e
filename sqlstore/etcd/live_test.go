package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"

	"github.com/rowlock/rowlock/sqlstore/etcd/etcdtest"
)

func dialed(t *testing.T, prefix string, urls ...string) Snapshot {
	t.Helper()
	s, err := Dial(t.Context(), Servers{URLs: urls}, prefix)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The state at the first request is read, whatever is written meanwhile.
func TestLiveServers(t *testing.T) {
	for _, kine := range []bool{false, true} {
		server := &etcdtest.Server{Kine: kine, Cluster: 7}
		server.Serve(t, nil, puts...)
		s := dialed(t, "/registry/", "http://"+server.Address)
		lives := time.Hour - time.Second // an etcd returns the remaining time
		if kine {
			lives = time.Hour
		}
		want := []Entry{{"/registry/a", []byte("a"), 3, lives}, {"/registry/b", []byte("second\x00\xff"), 4, 0}, {"/registry/back", []byte("back"), 9, 0}}
		server.Write(etcdtest.Put{Key: "/registry/b"}, etcdtest.Put{Key: "/registry/c", Value: []byte("new")})
		var have []Entry
		if err := s.Each(t.Context(), "/registry/", func(e Entry) error {
			have = append(have, e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(have, want) || s.Revision() != int64(len(puts)+1) {
			t.Errorf("kine %t, at %d: %+v", kine, s.Revision(), have)
		}
	}
}

// Keys come in pages, each of which is as long as the maximum of a message.
func TestLivePages(t *testing.T) {
	var many []etcdtest.Put
	for i := range 3*pageKeys + 7 {
		many = append(many, etcdtest.Put{Key: fmt.Sprintf("/registry/%06d", i), Value: []byte("v")})
	}
	for i := range 20 {
		many = append(many, etcdtest.Put{Key: fmt.Sprintf("/registry/big/%06d", i), Value: bytes.Repeat([]byte("v"), 3<<20)})
	}
	server, asked := &etcdtest.Server{}, 0
	server.Asked = func(*etcdserverpb.RangeRequest) error { asked++; return nil }
	server.Serve(t, nil, many...)
	s := dialed(t, "/registry/", "http://"+server.Address)
	last, seen := "", 0
	if err := s.Each(t.Context(), "/registry/", func(e Entry) error {
		if e.Key <= last || len(e.Value) == 0 {
			return fmt.Errorf("%s after %s", e.Key, last)
		}
		last = e.Key
		seen++
		return nil
	}); err != nil || seen != len(many) {
		t.Errorf("%d of %d keys: %v", seen, len(many), err)
	}
	if asked < 8 || asked > 500 {
		t.Errorf("it was asked %d times", asked)
	}
}

// When a server fails, the read continues with another one of its cluster, at the same state, but not with one of
// another cluster.
func TestLiveServersThatGo(t *testing.T) {
	var many []etcdtest.Put
	for i := range 2 * pageKeys {
		many = append(many, etcdtest.Put{Key: fmt.Sprintf("/registry/%06d", i), Value: []byte("v")})
	}
	for name, c := range map[string]struct {
		cluster  uint64
		urls     func(first, second string) []string
		compacts bool
		want     string
	}{
		"another one":    {7, func(a, b string) []string { return []string{a, b} }, false, ""},
		"a stranger":     {8, func(a, b string) []string { return []string{a, b} }, false, "is not of the cluster of the others"},
		"none":           {7, func(a, _ string) []string { return []string{a} }, false, "http://127.0.0.1:"},
		"it is no state": {7, func(a, b string) []string { return []string{a, b} }, true, "stop the kube-apiservers, or make a snapshot"},
	} {
		t.Run(name, func(t *testing.T) {
			first, second := &etcdtest.Server{Cluster: 7}, &etcdtest.Server{Cluster: c.cluster}
			first.Serve(t, nil, many...)
			second.Serve(t, nil, many...)
			s := dialed(t, "/registry/", c.urls("http://"+first.Address, "http://"+second.Address)...)
			second.Write(etcdtest.Put{Key: "/registry/000001"})
			if c.compacts {
				second.Forget()
			}
			seen := 0
			err := s.Each(t.Context(), "/registry/", func(Entry) error {
				if seen++; seen == pageKeys {
					first.Stop()
				}
				return nil
			})
			if c.want == "" && (err != nil || seen != len(many)) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%d of %d keys: %v", seen, len(many), err)
			}
		})
	}
}

// hangsUp serves like an etcd without TLS to a client with TLS: it reads the data, and closes the connection without an
// answer.
func hangsUp(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1<<16)) // the whole beginning of TLS, so that closing does not reset the connection
			c.Close()
		}
	}()
	return l.Addr().String()
}

// An error of reaching a server contains its URL.
func TestLiveErrors(t *testing.T) {
	web := httptest.NewUnstartedServer(http.NotFoundHandler())
	web.EnableHTTP2 = true
	web.StartTLS()
	defer web.Close()
	certificate := web.TLS.Certificates[0]
	secured := &etcdtest.Server{}
	secured.Serve(t, &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAnyClientCert, MinVersion: tls.VersionTLS12}, puts...)
	plain := &etcdtest.Server{}
	plain.Serve(t, nil, puts...)
	silent := hangsUp(t)
	refuses := &etcdtest.Server{Asked: func(*etcdserverpb.RangeRequest) error { return rpctypes.ErrGRPCPermissionDenied }}
	refuses.Serve(t, nil)
	anyone := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12} //nolint:gosec // of a test
	for name, c := range map[string]struct {
		url  string
		tls  *tls.Config
		want string
	}{
		"an unknown authority":    {"https://" + secured.Address, nil, "certificate signed by unknown authority"},
		"no client certificate":   {"https://" + secured.Address, anyone, "it was shown no client certificate"},
		"TLS where there is none": {"https://" + plain.Address, anyone, "it is no etcd and no kine, or to be asked by http://"},
		"TLS for an etcd's cmux":  {"https://" + silent, anyone, "it is no etcd and no kine, or to be asked by http://"},
		"none where there is TLS": {"http://" + secured.Address, nil, "it is no etcd and no kine, or to be asked by https://"},
		"no right":                {"http://" + refuses.Address, nil, "etcdserver: permission denied; a client certificate says who asks"},
		"a web server":            {web.URL, anyone, "404"},
		"nobody":                  {"http://127.0.0.1:1", nil, "http://127.0.0.1:1: dial tcp 127.0.0.1:1: connect: connection refused"},
		"another scheme":          {"ftp://127.0.0.1:1", nil, "has not the form"},
		"no port":                 {"https://127.0.0.1", nil, "has not the form"},
		"no socket":               {"unix:///nowhere", nil, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			s, err := Dial(ctx, Servers{URLs: []string{c.url}, TLS: c.tls}, "/registry/")
			if err == nil {
				t.Fatal("it was opened", s.Close())
			}
			if !strings.Contains(err.Error(), c.url) || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
	if s, err := Dial(t.Context(), Servers{URLs: []string{"https://" + secured.Address},
		TLS: &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}}, "/registry/"); err != nil { //nolint:gosec // of a test
		t.Error(err)
	} else {
		err := s.Each(t.Context(), "/registry/", func(Entry) error { return errors.New("enough") })
		if err == nil || !strings.Contains(err.Error(), "enough") {
			t.Error(err)
		}
		_ = s.Close()
	}
}

// A server that has too much to do is asked again, for a limited time.
func TestBusyServer(t *testing.T) {
	var many []etcdtest.Put
	for i := range 2 * pageKeys {
		many = append(many, etcdtest.Put{Key: fmt.Sprintf("/registry/%06d", i), Value: []byte("v")})
	}
	for _, refusals := range []int{1, busyTurns, busyTurns + 1} {
		left := 0
		server := &etcdtest.Server{Asked: func(*etcdserverpb.RangeRequest) error {
			if left > 0 {
				left--
				return rpctypes.ErrGRPCRequestTooManyRequests
			}
			return nil
		}}
		server.Serve(t, nil, many...)
		s := dialed(t, "/registry/", "http://"+server.Address)
		s.(*liveSnapshot).wait = time.Microsecond
		left = refusals
		seen := 0
		err := s.Each(t.Context(), "/registry/", func(Entry) error {
			seen++
			return nil
		})
		if refusals <= busyTurns && (err != nil || seen != len(many)) {
			t.Errorf("refused %d times: %d of %d keys, %v", refusals, seen, len(many), err)
		}
		if refusals > busyTurns && (err == nil || !strings.Contains(err.Error(), "too many requests")) {
			t.Errorf("refused %d times: %v", refusals, err)
		}
	}
	server := &etcdtest.Server{}
	server.Serve(t, nil, many...)
	s := dialed(t, "/registry/", "http://"+server.Address)
	server.Asked = func(*etcdserverpb.RangeRequest) error { return rpctypes.ErrGRPCRequestTooManyRequests }
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer stop()
	if err := s.Each(ctx, "/registry/", func(Entry) error { return nil }); !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		t.Errorf("when there is no more time: %v", err)
	}
}

// If an etcd does not return the lifetime of a lease, that is an error; the lease is not taken for one of kine, whose
// numbers are seconds.
func TestLeaseNobodyKnows(t *testing.T) {
	server := &etcdtest.Server{Cluster: 7, Leases: errors.New("the disk is gone")}
	server.Serve(t, nil, puts...)
	err := dialed(t, "/registry/", "http://"+server.Address).Each(t.Context(), "/registry/", func(Entry) error { return nil })
	if err == nil || !strings.Contains(err.Error(), "the lease of /registry/a") || !strings.Contains(err.Error(), "the disk is gone") {
		t.Error(err)
	}
}
