package upstream

import v1 "k8s.io/api/core/v1"

// KubeletAddresses returns the kinds of addresses of a node in the order in which kube-apiserver tries them unless told
// otherwise.
func KubeletAddresses() []string {
	return []string{string(v1.NodeHostName), string(v1.NodeInternalDNS), string(v1.NodeInternalIP), string(v1.NodeExternalDNS),
		string(v1.NodeExternalIP)}
}
