package upstream

// EtcdPrefixes are the parts of kube-apiserver's keys in etcd that differ from the name of the resource, by the resource with its group:
// SpecialDefaultResourcePrefixes, whose package depends on kube-apiserver's storage.
var EtcdPrefixes = map[string]string{
	"endpoints":                   "services/endpoints",
	"ingresses.extensions":        "ingress",
	"ingresses.networking.k8s.io": "ingress",
	"nodes":                       "minions",
	"replicationcontrollers":      "controllers",
	"services":                    "services/specs",
}
