package handlers_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// silentLog is the log of a Pod on a node that drops packets.
type silentLog struct{ *url.URL }

func (l silentLog) New() runtime.Object { return &core.Pod{} }
func (l silentLog) Destroy()            {}

func (l silentLog) NewGetOptions() (runtime.Object, bool, string) {
	return &core.PodLogOptions{}, false, ""
}

func (l silentLog) Get(context.Context, string, runtime.Object) (runtime.Object, error) {
	return silentText{URL: l.URL}, nil
}

type silentText struct {
	runtime.Object
	*url.URL
}

func (s silentText) InputStream(context.Context, string, string) (io.ReadCloser, bool, string, error) {
	_, err := (&http.Client{Transport: hastyTransport}).Get(s.String())
	return nil, false, "", err
}

// hastyTransport gives up every connection.
var hastyTransport = &http.Transport{DialContext: (&net.Dialer{Timeout: time.Nanosecond}).DialContext}

// A network timeout on the way to a kubelet is an error of the server, with its text, and not the end of the request's time.
func TestKubeletThatDoesNotAnswer(t *testing.T) {
	a := newAPI(t)
	pods, ok := a.registry.Catalog().Lookup(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	if !ok {
		t.Fatal("no pods")
	}
	pods.Subresources["log"].Stream = func(resources.Reader) rest.GetterWithOptions {
		return silentLog{&url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/x"}}
	}
	a.run(exchange{do: "GET /api/v1/namespaces/test/pods/p/log", code: 500,
		says: says{"message": `Get "http://127.0.0.1:1/x": dial tcp 127.0.0.1:1: i/o timeout`, "reason": "-"}})
}
