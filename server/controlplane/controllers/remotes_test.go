package controllers_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

type noServer struct{}

func (noServer) Probe(context.Context, schema.GroupVersion) error {
	return errors.New("there is no server")
}

// Without controllers, servers hold an election only while an APIService has a Service.
func TestElectionForAPIServices(t *testing.T) {
	c := newCluster(t)
	apiService := func(version string, service *apiregistration.ServiceReference) *resources.Object {
		return c.create("apiservices.apiregistration.k8s.io", &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: version + ".example.com"},
			Spec: apiregistration.APIServiceSpec{Group: "example.com", Version: version, Service: service, GroupPriorityMinimum: 100, VersionPriority: 10}})
	}
	elections := make(chan string)
	ctx, cancel := context.WithCancel(c.ctx)
	done := make(chan error, 1)
	local := apiService("v1", nil)
	go func() {
		done <- controllers.Run(ctx, controllers.Config{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Prober: noServer{},
			Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Elect: func(ctx context.Context, lead func(context.Context)) error {
				elections <- "begins"
				lead(ctx)
				elections <- "ends"
				return nil
			}})
	}()
	for range 2 {
		// An earlier election would be received here.
		select {
		case news := <-elections:
			t.Fatalf("an election %s without an APIService with a Service", news)
		default:
		}
		remote := apiService("v2", &apiregistration.ServiceReference{Namespace: "default", Name: "ext", Port: 443})
		if news := <-elections; news != "begins" {
			t.Fatal(news)
		}
		c.delete(remote, metav1.DeletePropagationBackground)
		if news := <-elections; news != "ends" {
			t.Fatal(news)
		}
	}
	if c.get(local.Key) == nil {
		t.Error("the other one is gone, too")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
