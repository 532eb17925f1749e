package controlplane

import (
	"errors"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// An APIService whose repair fails does not stop the repair of the others, unless the store itself fails.
func TestAPIServicesOthers(t *testing.T) {
	const path = "/apis/apiregistration.k8s.io/v1/apiservices/"
	for _, tc := range []struct {
		fails    string
		err      error
		priority int64
		code     int
	}{
		{"v1.example.com", errors.New("refused"), 100, 200},
		{"v3.example.com", errors.New("refused"), 100, 200},
		{"v1.example.com", resources.ErrUnavailable, 7, 404},
		{"v3.example.com", resources.ErrUnavailable, 100, 404},
	} {
		x := newRepairs(t)
		group := resources.GroupSpec{Name: "example.com", Priority: 1000}
		for _, v := range []string{"v1", "v2", "v3", "v4"} {
			group.Versions = append(group.Versions, resources.VersionSpec{Version: v, Priority: 100})
		}
		x.p.Registry.SetGroup(group)
		c := x.p.keepAPIServices()
		if _, err := c.do(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		for _, v := range []string{"v1", "v2"} {
			x.send("PATCH", path+v+".example.com", `{"spec":{"versionPriority":7}}`, 200)
		}
		for _, v := range []string{"v3", "v4"} {
			x.send("DELETE", path+v+".example.com", "", 200)
		}
		store := &refusingStore{Store: x.store, name: tc.fails, err: tc.err}
		x.p.Pipeline = resources.NewPipeline(store, resources.PipelineOptions{})
		if _, err := c.do(t.Context(), nil); !errors.Is(err, tc.err) || store.count == 0 {
			t.Errorf("%s: %d writes, and the error is %v", tc.fails, store.count, err)
		}
		if got := x.send("GET", path+"v2.example.com", "", 200).Get("spec.versionPriority").Int(); got != tc.priority {
			t.Errorf("%s fails with %v: the next has the priority %d, want %d", tc.fails, tc.err, got, tc.priority)
		}
		x.send("GET", path+"v4.example.com", "", tc.code)
	}
}
