package upstream

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// "Response compression" is for get and list: watches are compressed only where the operator turns that on.
func TestWatchesAreNotCompressedByDefault(t *testing.T) {
	prepareGates()
	if utilfeature.DefaultFeatureGate.Enabled(features.WatchListCompression) {
		t.Error("WatchListCompression is on")
	}
	gate := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	if err := gate.SetFromMap(map[string]bool{"WatchListCompression": true}); err != nil || !gate.Enabled(features.WatchListCompression) {
		t.Error("it cannot be turned on", err)
	}
}

// publishedGate is an entry in upstream's published list of gates.
type publishedGate struct {
	Name           string
	VersionedSpecs []struct {
		Version, MinCompatibilityVersion, PreRelease string
		Default, LockToDefault                       bool
	}
}

// TestGatesArePublished compares the gates and their defaults with the list of all gates of Kubernetes in upstream's
// source.
func TestGatesArePublished(t *testing.T) {
	prepareGates()
	data, err := os.ReadFile(filepath.Join(upstreamtest.ModuleDir(t, "k8s.io/kubernetes"), "test/compatibility_lifecycle/reference/versioned_feature_list.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var published []publishedGate
	if err := yaml.Unmarshal(data, &published); err != nil || len(published) < 200 {
		t.Fatalf("%d gates, %v", len(published), err)
	}
	known := utilfeature.DefaultMutableFeatureGate.GetAll()
	this, oldest := version.MajorMinor(Major, Minor), version.MajorMinor(Major, minCompatibilityMinor)
	var unknown []string
	for _, p := range published {
		var want featuregate.FeatureSpec
		for _, spec := range p.VersionedSpecs { // in order; the last one that is not of a later release counts
			compatible := spec.MinCompatibilityVersion == "" || !version.MustParse(spec.MinCompatibilityVersion).GreaterThan(oldest)
			if compatible && !version.MustParse(spec.Version).GreaterThan(this) {
				want = featuregate.FeatureSpec{Default: spec.Default, LockToDefault: spec.LockToDefault}
			}
		}
		gate := featuregate.Feature(p.Name)
		got, ok := known[gate]
		if !ok {
			unknown = append(unknown, p.Name)
			continue
		}
		if on, other := otherDefaults[gate]; other {
			if on == want.Default {
				t.Errorf("%s is %v by default upstream, too: it need not be in otherDefaults", gate, on)
			}
			continue
		}
		if got.Default != want.Default || got.LockToDefault != want.LockToDefault {
			t.Errorf("%s: default %v, locked %v; published: %v, %v", gate, got.Default, got.LockToDefault, want.Default, want.LockToDefault)
		}
		delete(known, gate)
	}
	if len(unknown) > 0 {
		t.Errorf("gates that are not known here: %v", unknown)
	}
	for gate := range foreignGates {
		if !slices.ContainsFunc(published, func(p publishedGate) bool { return p.Name == string(gate) }) {
			t.Errorf("%s is not published any more", gate)
		}
	}
}

func TestGatesThatAreRefused(t *testing.T) {
	for name, want := range map[string]string{
		"NoSuchGate":              "unrecognized feature gate: NoSuchGate",
		"kubelet:AnyVolumeSource": "component not registered: kubelet",
	} {
		if err := SetFeatureGates(map[string]bool{name: true}); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// Commands with an EncryptionConfiguration log nothing about KMS v1, which most of them do not meet.
func TestKMSv1IsAllowedQuietly(t *testing.T) {
	var log bytes.Buffer
	LogTo(slog.New(slog.NewTextHandler(&log, nil)))
	defer LogTo(slog.Default())
	if utilfeature.DefaultFeatureGate.Enabled(features.KMSv1) {
		t.Error("it is on by default")
	}
	if AllowKMSv1(); !utilfeature.DefaultFeatureGate.Enabled(features.KMSv1) {
		t.Error("it is not on")
	}
	if log.Len() > 0 {
		t.Errorf("it logs %s", log.String())
	}
	if err := SetFeatureGates(map[string]bool{"KMSv1": false}); err != nil || log.Len() == 0 {
		t.Errorf("what a flag sets is not logged: %v", err)
	}
}
