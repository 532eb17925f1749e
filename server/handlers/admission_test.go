package handlers_test

import "testing"

// kube-apiserver's default plugins complete and reject objects; clients see the effect.
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

// A quota bounds the devices that ResourceClaims request, by the name of their DeviceClass and by the extended resource of that class.
func TestResourceQuotaOfDevices(t *testing.T) {
	a := newAPI(t)
	quota := func(name, resource, hard string) exchange {
		return exchange{do: "PATCH /api/v1/namespaces/test/resourcequotas/" + name + "/status", header: asMergePatch, code: 200,
			body: `{"status":{"hard":{"` + resource + `":"` + hard + `"},"used":{"` + resource + `":"0"}}}`}
	}
	claim := func(name, request string, code int, message string) exchange {
		e := exchange{do: "POST /apis/resource.k8s.io/v1/namespaces/test/resourceclaims", code: code,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"devices":{"requests":[{"name":"r",` + request + `}]}}}`}
		if message != "" {
			e.says = says{"message": `resourceclaims.resource.k8s.io "` + name + `" is forbidden: exceeded quota: ` + message}
		}
		return e
	}
	two := `"exactly":{"deviceClassName":"gpu","count":2}`
	class := func(name, resource string) exchange {
		return exchange{do: "POST /apis/resource.k8s.io/v1/deviceclasses", code: 201,
			body: `{"metadata":{"name":"` + name + `"},"spec":{"extendedResourceName":"` + resource + `"}}`}
	}
	a.run(
		exchange{do: "POST /api/v1/namespaces/test/resourcequotas", body: `{"metadata":{"name":"a"},"spec":{"hard":{"gpu.deviceclass.resource.k8s.io/devices":"3"}}}`, code: 201},
		quota("a", "gpu.deviceclass.resource.k8s.io/devices", "3"),
		claim("a", two, 201, ""),
		exchange{do: "GET /api/v1/namespaces/test/resourcequotas/a", code: 200, says: says{`status.used.gpu\.deviceclass\.resource\.k8s\.io/devices`: "2"}},
		claim("b", two, 403, `a, requested: gpu.deviceclass.resource.k8s.io/devices=2, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=3`),
		claim("b", `"firstAvailable":[{"name":"x","deviceClassName":"gpu","allocationMode":"All"}]`, 403,
			`a, requested: gpu.deviceclass.resource.k8s.io/devices=32, used: gpu.deviceclass.resource.k8s.io/devices=2, limited: gpu.deviceclass.resource.k8s.io/devices=3`),
		exchange{do: "DELETE /api/v1/namespaces/test/resourcequotas/a", code: 200},

		exchange{do: "POST /api/v1/namespaces/test/resourcequotas", body: `{"metadata":{"name":"e"},"spec":{"hard":{"requests.example.com/gpu":"1"}}}`, code: 201},
		quota("e", "requests.example.com/gpu", "1"),
		claim("c", two, 201, ""), // the class has no extended resource yet
		class("gpu", "example.com/gpu"),
		claim("d", two, 403, `e, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=0, limited: requests.example.com/gpu=1`),
		exchange{do: "PATCH /apis/resource.k8s.io/v1/deviceclasses/gpu", header: asMergePatch, body: `{"spec":{"extendedResourceName":"example.com/other"}}`, code: 200},
		claim("d", two, 201, ""),
		exchange{do: "DELETE /apis/resource.k8s.io/v1/deviceclasses/gpu", code: 200},
		class("gpu", "example.com/gpu"),
		claim("f", two, 403, `e, requested: requests.example.com/gpu=2, used: requests.example.com/gpu=0, limited: requests.example.com/gpu=1`),
		exchange{do: "DELETE /apis/resource.k8s.io/v1/deviceclasses/gpu", code: 200},
		claim("f", two, 201, ""),
	)
}

// A quota with a status.hard bounds new objects; usage is counted within the request.
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

// Pods get the topology labels of their node, when they are created on it and when they are bound to it.
func TestPodTopologyLabels(t *testing.T) {
	a := newAPI(t)
	const zone, region = `metadata.labels.topology\.kubernetes\.io/zone`, `metadata.labels.topology\.kubernetes\.io/region`
	a.run(
		exchange{do: "POST /api/v1/nodes", body: `{"metadata":{"name":"n","labels":{"topology.kubernetes.io/zone":"z","topology.kubernetes.io/region":"r","disk":"fast"}}}`, code: 201},
		exchange{do: podsOfTest, body: podOf("created", `"nodeName":"n",`), code: 201, says: says{zone: "z", region: "r", "metadata.labels.disk": "-"}},
		exchange{do: podsOfTest, body: podOf("bound", ""), code: 201, says: says{zone: "-"}},
		exchange{do: "POST /api/v1/namespaces/test/pods/bound/binding", body: `{"metadata":{"name":"bound"},"target":{"kind":"Node","name":"n"}}`, code: 201},
		exchange{do: "GET /api/v1/namespaces/test/pods/bound", code: 200, says: says{zone: "z", region: "r", "metadata.labels.disk": "-", "spec.nodeName": "n"}},
		exchange{shows: "a node that does not exist", do: podsOfTest, body: podOf("elsewhere", `"nodeName":"m",`), code: 201, says: says{zone: "-"}},
	)
}
