package server_test

import (
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/untyped/untypedtest"
	"github.com/rowlock/rowlock/server/servertest"
)

// The series of a version are removed some time after it is no longer served, late counts included, but not if it is served again.
func TestMetricsOfEndedVersions(t *testing.T) {
	s, c := servertest.New(t, nil)
	h := s.Handler()
	types := map[string]*resources.Type{}
	set := func(group, note string) {
		v := untypedtest.Versions()[0]
		v.Note = note
		of, err := v.Type()
		if err != nil {
			t.Fatal(err)
		}
		of.Group, of.StorageVersion.Group, of.Hub.Group = group, group, group
		types[group] = of
		c.Registry.Edit(func(e *resources.Edit) {
			e.RemoveGroup(group)
			e.SetType(of.StorageVersion, 1000, 100, of)
		})
	}
	series := func(group string) (n int) {
		for line := range strings.Lines(get(h, "/metrics", "known").Body.String()) {
			if strings.Contains(line, `group="`+group+`"`) && !strings.HasPrefix(line, "apiserver_resource_") {
				n++
			}
		}
		return n
	}
	for _, group := range []string{"goes.example.org", "changes.example.org"} {
		set(group, "")
		path := "/apis/" + types[group].StorageVersion.String() + "/" + types[group].Resource
		for _, query := range []string{"", "?watch=true&timeoutSeconds=1&sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"} {
			if w := get(h, path+query, "known"); w.Code != 200 {
				t.Fatal(w.Code, w.Body)
			}
		}
		if n := series(group); n == 0 {
			t.Fatalf("nothing is counted of %s", group)
		}
	}
	gone := func() {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); series("goes.example.org") > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d series are left", series("goes.example.org"))
			}
		}
	}
	body, slow := io.Pipe()
	late := httptest.NewRequest("POST", "/apis/"+types["goes.example.org"].StorageVersion.String()+"/namespaces/default/"+types["goes.example.org"].Resource, body)
	late.Header.Set("Authorization", "known")
	late.Header.Set("Content-Type", "application/json")
	answered := make(chan struct{})
	go func() { defer close(answered); h.ServeHTTP(httptest.NewRecorder(), late) }()
	if _, err := slow.Write([]byte("{")); err != nil { // the body is being read: the request is in flight
		t.Fatal(err)
	}
	before := series("changes.example.org")
	set("changes.example.org", "another")
	c.Registry.RemoveGroup("goes.example.org")
	gone()
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	<-answered
	if series("goes.example.org") == 0 {
		t.Fatal("the late request is not counted")
	}
	gone()
	if after := series("changes.example.org"); after != before {
		t.Errorf("%d series were left of %d", after, before)
	}
}
