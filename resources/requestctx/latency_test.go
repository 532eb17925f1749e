package requestctx_test

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// Each tracker computes the same from durations as upstream's of the same name.
func TestTrackersAreUpstreams(t *testing.T) {
	ours, _ := request.LatencyTrackersFrom(requestctx.WithLatencyTrackers(requestctx.New(t.Context())))
	theirs, _ := request.LatencyTrackersFrom(request.WithLatencyTrackers(context.Background()))
	of := func(all *request.LatencyTrackers, i int) request.DurationTracker {
		tracker, ok := reflect.ValueOf(all).Elem().Field(i).Interface().(request.DurationTracker)
		if !ok {
			t.Fatal("there is no tracker", reflect.TypeFor[request.LatencyTrackers]().Field(i).Name)
		}
		return tracker
	}
	synctest.Test(t, func(t *testing.T) {
		for i := range reflect.TypeFor[request.LatencyTrackers]().NumField() {
			for _, tracker := range []request.DurationTracker{of(ours, i), of(theirs, i)} {
				tracker.TrackDuration(time.Duration(i+2) * time.Hour)
				tracker.TrackDuration(time.Hour)
				func() {
					defer func() { _ = recover() }()
					tracker.Track(func() {
						time.Sleep(90 * time.Minute)
						panic("it fails")
					})
				}()
			}
		}
	})
	for i := range reflect.TypeFor[request.LatencyTrackers]().NumField() {
		name := reflect.TypeFor[request.LatencyTrackers]().Field(i).Name
		if got, want := of(ours, i).GetLatency(), of(theirs, i).GetLatency(); got != want {
			t.Errorf("%s: %s, and upstream's has %s", name, got, want)
		}
	}
}
