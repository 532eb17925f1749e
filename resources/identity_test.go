package resources

import (
	"testing"

	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
)

// The ID of a server is the one that kube-apiserver has on the same host (NewConfig of k8s.io/apiserver/pkg/server, run on a host named node-1).
func TestServerID(t *testing.T) {
	if id := serverID("node-1"); id != "apiserver-lgabes5ywnaqeagh5dny4zlzs4" {
		t.Errorf("the ID is %s", id)
	}
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.APIServerIdentity, false)
	if id := ServerID(); id != "" {
		t.Errorf("where servers have no identity, the ID is %s", id)
	}
}
