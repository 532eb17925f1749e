package builtin

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/probe"
	"k8s.io/kubernetes/pkg/registry/core/componentstatus"

	"github.com/rowlock/rowlock/resources"
)

// componentStatuses report the state of the store, under the name that clients expect, and of a scheduler and a
// controller manager on the same host, which are called at their default ports, as kube-apiserver does.
func componentStatuses() *resources.Type {
	t := newType(coreV1, "componentstatuses", false, maker[core.ComponentStatus])
	t.NewList = func() runtime.Object { return &core.ComponentStatusList{} }
	t.ShortNames = []string{"cs"}
	t.Attrs = metaAttrs(true) // kube-apiserver selects by namespace too, which is always empty
	t.Table = tables
	t.StorageVersion = schema.GroupVersion{}
	scheduler, manager := neighbour(10259), neighbour(10257)
	t.Computed = func(ctx context.Context, s resources.Reader, q resources.ComputedQuery) (resources.ComputedPage, error) {
		asked := []component{{"scheduler", scheduler}, {"controller-manager", manager}, {"etcd-0", storeServer{ctx, s}}}
		if q.Name != "" {
			asked = slices.DeleteFunc(asked, func(c component) bool { return c.name != q.Name })
		}
		found := make([]runtime.Object, len(asked))
		var checks sync.WaitGroup
		for i, c := range asked {
			checks.Go(func() { found[i] = componentStatus(c.name, c.Server) })
		}
		checks.Wait()
		return resources.ComputedPage{Objects: found}, nil
	}
	return t
}

// component is a component with the check of its health.
type component struct {
	name string
	componentstatus.Server
}

// neighbour is a component on this host. Its certificate is not verified, and it gets no data.
func neighbour(port int) *componentstatus.HttpServer {
	return &componentstatus.HttpServer{EnableHTTPS: true, TLSConfig: &tls.Config{InsecureSkipVerify: true},
		Addr: "127.0.0.1", Port: port, Path: "/healthz"}
}

func componentStatus(name string, s componentstatus.Server) *core.ComponentStatus {
	result, message, err := s.DoServerCheck()
	c := core.ComponentCondition{Type: core.ComponentHealthy, Status: componentstatus.ToConditionStatus(result), Message: message}
	if err != nil {
		c.Error = err.Error()
	}
	return &core.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: name}, Conditions: []core.ComponentCondition{c}}
}

// storeServer is the store as a component.
type storeServer struct {
	ctx context.Context
	s   resources.Reader
}

func (s storeServer) DoServerCheck() (probe.Result, string, error) {
	// No object has an empty name; the store has to ask its database to be certain of that.
	_, err := s.s.Get(s.ctx, resources.Key{Resource: "namespaces"}, resources.At{Match: resources.MostRecent})
	if err != nil && !errors.Is(err, resources.ErrNotFound) {
		return probe.Failure, "", err
	}
	return probe.Success, "ok", nil
}
