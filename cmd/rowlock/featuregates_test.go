package main

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// "Response compression" is for get and list: watches are compressed only where somebody turns that on.
func TestWatchesAreNotCompressedByDefault(t *testing.T) {
	if utilfeature.DefaultFeatureGate.Enabled(features.WatchListCompression) {
		t.Error("WatchListCompression is on")
	}
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gate.SetFromMap(map[string]bool{"WatchListCompression": true}); err != nil || !gate.Enabled(features.WatchListCompression) {
		t.Error("it cannot be turned on", err)
	}
}
