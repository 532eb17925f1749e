package framework

import (
	"os"
	"testing"

	"k8s.io/klog/v2"

	"github.com/rowlock/rowlock/e2e/peers/kubernetes/integration/server"
)

// RunCustomEtcd fails: there is no etcd.
func RunCustomEtcd(klog.Logger, string, []string) (url string, stopFn func(), err error) {
	return "", nil, server.ErrNoEtcd
}

// EtcdMain runs the tests of a package. Each server has a database of its own.
func EtcdMain(tests func() int) { os.Exit(tests()) }

// GetEtcdURL returns an address at which nobody listens. Rowlock does not contact it.
func GetEtcdURL() string { return "http://127.0.0.1:1" }

// StartEtcd does nothing.
func StartEtcd(klog.Logger, testing.TB, bool) {}
