package upstream

import (
	"fmt"
	"strings"
	"sync"

	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	metricsfeatures "k8s.io/component-base/metrics/features"
	"k8s.io/klog/v2"
)

// foreignGates are the gates of parts of kube-apiserver that are not part of this program; they are accepted nevertheless.
var foreignGates = map[featuregate.Feature]featuregate.FeatureSpec{
	"ContextualLogging": {Default: true, PreRelease: featuregate.Beta},
	"ControllerManagerReleaseLeaderElectionLockOnExit": {PreRelease: featuregate.Alpha},
	"LoggingAlphaOptions":                              {PreRelease: featuregate.Alpha},
	"LoggingBetaOptions":                               {Default: true, PreRelease: featuregate.Beta},
}

// otherDefaults are gates whose default differs from kube-apiserver's.
var otherDefaults = map[featuregate.Feature]bool{
	// Watches are not compressed by default, though kube-apiserver v1.37 compresses those that begin with a list: it costs each of their clients more
	// than it saves where servers are near.
	features.WatchListCompression: false,
}

var prepareGates = sync.OnceFunc(func() {
	utilruntime.Must(utilfeature.DefaultMutableFeatureGate.Add(foreignGates))
	utilruntime.Must(metricsfeatures.AddFeatureGates(utilfeature.DefaultMutableFeatureGate))
	for gate, on := range otherDefaults {
		utilruntime.Must(utilfeature.DefaultMutableFeatureGate.OverrideDefault(gate, on))
	}
})

// SetFeatureGates turns features of kube-apiserver on and off for the whole process, since upstream's rules for the types read its gates there, and
// shows them in its metrics. Gates that are not given get Rowlock's defaults. A name may begin with the component "kube:", as in kube-apiserver. The
// error names a gate that does not exist or cannot be changed; nothing is changed then.
func SetFeatureGates(given map[string]bool) error {
	prepareGates()
	gates := map[string]bool{}
	for name, on := range given {
		component, gate, ok := strings.Cut(name, ":")
		switch {
		case !ok:
			gate = name
		case component != "kube":
			return fmt.Errorf("component not registered: %s", component)
		}
		gates[gate] = on
	}
	// A set that refuses a gate remembers it nevertheless, and refuses all others from then on.
	if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(gates); err != nil {
		return err
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		return err
	}
	utilfeature.DefaultMutableFeatureGate.AddMetrics()
	metricsfeatures.ApplyFeatureGates(utilfeature.DefaultFeatureGate)
	return nil
}

// AllowKMSv1 turns on the feature KMSv1 for the whole process: for commands that have no flag for it. Few of them meet a plugin of that version, so
// upstream's warning that the feature will be removed is not logged.
func AllowKMSv1() {
	gates := utilfeature.DefaultMutableFeatureGate.(featuregate.MutableFeatureGateWithLogger) // which its package promises of it
	utilruntime.Must(gates.SetFromMapWithLogger(klog.Logger{}, map[string]bool{string(features.KMSv1): true}))
}
