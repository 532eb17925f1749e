package handlers_test

import "testing"

// Without being asked for anything, kube-apiserver's plugins complete and refuse what is written; that they do is part of
// what a client sees.
func TestAdmission(t *testing.T) {
	a := newAPI(t)
	const pods = "POST /api/v1/namespaces/test/pods"
	a.run(
		exchange{shows: "Priority, DefaultTolerationSeconds", do: pods, body: `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"a","image":"a"}]}}`,
			code: 201, says: says{"spec.priority": "0", "spec.preemptionPolicy": "PreemptLowerPriority",
				"spec.tolerations.#.key": `["node.kubernetes.io/not-ready","node.kubernetes.io/unreachable"]`}},
		exchange{shows: "Priority: no such class", do: pods, body: `{"metadata":{"name":"b"},"spec":{"priorityClassName":"high","containers":[{"name":"a","image":"a"}]}}`,
			code: 403, says: says{"reason": "Forbidden", "message": `pods "b" is forbidden: no PriorityClass with name high was found`}},
		exchange{do: "POST /apis/scheduling.k8s.io/v1/priorityclasses", body: `{"metadata":{"name":"high"},"value":1000}`, code: 201},
		exchange{shows: "Priority: at once after the class was made", do: pods, body: `{"metadata":{"name":"b"},"spec":{"priorityClassName":"high","containers":[{"name":"a","image":"a"}]}}`,
			code: 201, says: says{"spec.priority": "1000"}},
		exchange{do: "POST /api/v1/namespaces/test/limitranges", body: `{"metadata":{"name":"l"},"spec":{"limits":[{"type":"Container","default":{"cpu":"2"}}]}}`, code: 201},
		exchange{shows: "LimitRanger", do: pods, body: `{"metadata":{"name":"c"},"spec":{"containers":[{"name":"a","image":"a"}]}}`,
			code: 201, says: says{"spec.containers.0.resources.limits.cpu": "2", `metadata.annotations.kubernetes\.io/limit-ranger`: "LimitRanger plugin set: cpu request for container a; cpu limit for container a"}},
		exchange{do: "POST /apis/storage.k8s.io/v1/storageclasses", body: `{"metadata":{"name":"fast","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p"}`, code: 201},
		exchange{shows: "DefaultStorageClass, StorageObjectInUseProtection", do: "POST /api/v1/namespaces/test/persistentvolumeclaims",
			body: `{"metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}`,
			code: 201, says: says{"spec.storageClassName": "fast", "metadata.finalizers": `["kubernetes.io/pvc-protection"]`}},
		exchange{shows: "TaintNodesByCondition", do: "POST /api/v1/nodes", body: `{"metadata":{"name":"n"}}`, code: 201, says: says{"spec.taints.0.key": "node.kubernetes.io/not-ready"}},
		exchange{do: "PATCH /api/v1/namespaces/test", header: asMergePatch, body: `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, code: 200},
		exchange{shows: "PodSecurity", do: pods, body: `{"metadata":{"name":"d"},"spec":{"hostNetwork":true,"containers":[{"name":"a","image":"a"}]}}`,
			code: 403, says: says{"message": `pods "d" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}},
	)
}

// A quota that has been measured (status.hard) bounds what is made; what is used is counted in the request that uses it.
func TestResourceQuota(t *testing.T) {
	a := newAPI(t)
	a.run(
		exchange{do: "POST /api/v1/namespaces/test/resourcequotas", body: `{"metadata":{"name":"q"},"spec":{"hard":{"configmaps":"1"}}}`, code: 201},
		exchange{do: "PATCH /api/v1/namespaces/test/resourcequotas/q/status", header: asMergePatch, body: `{"status":{"hard":{"configmaps":"1"},"used":{"configmaps":"0"}}}`, code: 200},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201},
		exchange{do: "GET /api/v1/namespaces/test/resourcequotas/q", code: 200, says: says{"status.used.configmaps": "1"}},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"b"}}`, code: 403,
			says: says{"message": `configmaps "b" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1`}},
	)
}
