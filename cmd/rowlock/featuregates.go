package main

import (
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// setFeatureGates turns features of kube-apiserver on and off for the whole process: upstream's rules for the types read
// its gates there. The error names a gate that does not exist or cannot be changed; nothing is changed then.
func setFeatureGates(gates map[string]bool) error {
	// A set that refuses a gate remembers it all the same, and refuses all others from then on.
	if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(gates); err != nil {
		return err
	}
	return utilfeature.DefaultMutableFeatureGate.SetFromMap(gates)
}
