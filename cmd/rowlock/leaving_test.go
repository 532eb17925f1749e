package main

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// A server that stops accepts connections until it is no longer an endpoint of the Service kubernetes: clients that use the endpoints find another
// server, and none that refuses them.
func TestLeavingTheEndpoints(t *testing.T) {
	c, err := pgtest.New()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	}()
	stays := start(t, "--data-dir", t.TempDir(), "--datastore", c.URL(), "--advertise-address", "192.0.2.1")
	defer stays.end()
	client := stays.client(t)
	for range 3 {
		leaves := start(t, "--data-dir", t.TempDir(), "--datastore", c.URL(), "--advertise-address", "192.0.2.2")
		config, err := clientcmd.BuildConfigFromFlags("", leaves.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		host, err := url.Parse(config.Host)
		if err != nil {
			t.Fatal(err)
		}
		leaves.stop()
		for {
			connection, err := net.Dial("tcp", host.Host)
			if errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			connection.Close()
			time.Sleep(time.Millisecond) // the server needs the processor, too
		}
		endpoints, err := client.CoreV1().Endpoints("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if all := endpoints.String(); !strings.Contains(all, "192.0.2.1") || strings.Contains(all, "192.0.2.2") {
			t.Errorf("a server that accepts no connections is an endpoint: %s", all)
		}
		if code := <-leaves.ended; code != 0 {
			t.Errorf("ended with %d: %s", code, leaves.stderr.String())
		}
	}
}
