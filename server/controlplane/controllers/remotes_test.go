package controllers_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

type noServer struct{}

func (noServer) Probe(context.Context, schema.GroupVersion) (asked bool, err error) {
	return true, errors.New("there is no server")
}

// probes are the results of the probes to come, and then nothing answers.
type probes struct{ results chan probe }

type probe struct {
	asked bool
	err   error
}

func (p probes) Probe(ctx context.Context, _ schema.GroupVersion) (asked bool, err error) {
	select {
	case r := <-p.results:
		return r.asked, r.err
	case <-ctx.Done():
		return true, ctx.Err()
	}
}

// A server that cannot be asked, because of a CA bundle that cannot be read, keeps its condition, and is asked again, as in kube-aggregator. The log
// has the reason once, until it is another one or the server could be asked meanwhile.
func TestServerThatCannotBeAsked(t *testing.T) {
	c := newCluster(t)
	c.create("services", &core.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ext"},
		Spec: core.ServiceSpec{Type: core.ServiceTypeExternalName, ExternalName: "localhost", SessionAffinity: core.ServiceAffinityNone}})
	remote := c.create("apiservices.apiregistration.k8s.io", &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: "v1.example.com"},
		Spec: apiregistration.APIServiceSpec{Group: "example.com", Version: "v1", GroupPriorityMinimum: 100, VersionPriority: 10,
			Service: &apiregistration.ServiceReference{Namespace: "default", Name: "ext", Port: 443}}})
	p := probes{make(chan probe)}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(c.ctx)
	var log bytes.Buffer
	go func() {
		done <- controllers.Run(ctx, controllers.Config{Registry: c.registry, Store: c.store, Pipeline: c.pipeline, Prober: p, Logger: slog.New(slog.NewJSONHandler(&log, nil))})
	}()
	message := func(o *resources.Object) string {
		return gjson.GetBytes(o.Data, `status.conditions.#(type=="Available").message`).Str
	}
	p.results <- probe{false, errors.New("no bundle")}
	p.results <- probe{false, errors.New("no bundle")}
	if said := message(c.get(remote.Key)); said != "" {
		t.Errorf("it is said to be unavailable: %s", said)
	}
	p.results <- probe{true, errors.New("no answer")}
	c.until("it is unavailable", remote.Key, func(o *resources.Object) bool { return message(o) == "no answer" })
	p.results <- probe{false, errors.New("no bundle")}
	p.results <- probe{false, errors.New("no bundle")}
	if said := message(c.get(remote.Key)); said != "no answer" {
		t.Errorf("the condition has changed: %s", said)
	}
	p.results <- probe{false, errors.New("another bundle")}
	p.results <- probe{false, errors.New("another bundle")} // the previous result has been dealt with
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var reasons []string
	for line := range strings.Lines(log.String()) {
		if gjson.Get(line, "msg").Str == "the availability of an APIService is not known" {
			reasons = append(reasons, gjson.Get(line, "error").Str)
		}
	}
	if want := []string{"no bundle", "no bundle", "another bundle"}; !slices.Equal(reasons, want) {
		t.Errorf("the log has %q, want %q", reasons, want)
	}
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
