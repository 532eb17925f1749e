package views

import (
	"strings"

	"github.com/rowlock/rowlock/resources"
)

// at is a column of a built-in type. path and other lead through members of objects, separated by dots.
func at(name string, kind Kind, path string, other ...string) Column {
	c := Column{Name: name, Kind: kind, Path: dotted(path)}
	if len(other) > 0 {
		c.Other = dotted(other[0])
	}
	return c
}

// text is a column with a text, as number is one with a number. Inlined, they would make the initialization of builtin 10 KiB larger.
//
//go:noinline
func text(name, path string) Column { return at(name, Text, path) }

//go:noinline
func number(name, path string) Column { return at(name, Number, path) }

func dotted(path string) Path { return Members(strings.Split(path, ".")...) }

// found is the text at other in the first element of a list whose member equals value.
func found(name, list, member, value, other string) Column {
	return Column{Name: name, Kind: Find, Path: dotted(list), Other: dotted(other), Member: member, Value: value}
}

// computed is a column that kubectl computes from several fields.
//
//go:noinline
func computed(name, what string) Column { return Column{Name: name, Kind: Computed, Value: what} }

// template are the columns of kinds whose controllers create Pods.
func template(path string, before ...Column) []Column {
	return append(before, at("containers", Join, path+".spec.containers", "name"), at("images", Join, path+".spec.containers", "image"))
}

// replicas are the columns of ReplicaSets and of their predecessors, ReplicationControllers.
func replicas() []Column {
	return template("spec.template", number("desired", "spec.replicas"), number("current", "status.replicas"), at("ready", Count, "status.readyReplicas"),
		at("selector", JSON, "spec.selector"))
}

// bindings are the columns of RoleBindings and ClusterRoleBindings.
var bindings = []Column{at("role", Pair, "roleRef.kind", "roleRef.name"), computed("users", "subject users"), computed("groups", "subject groups"),
	computed("serviceaccounts", "subject accounts")}

// eviction are the columns of Evictions and EvictionRequests.
var eviction = []Column{text("target", "spec.target.pod.name"), computed("target_type", "eviction target"), computed("printed_status", "eviction status")}

// builtin are the columns of built-in types that kubectl prints by the same names (see columnNames), together with a few that it does not
// print so: seconds and times where it prints a time span, and other names for keywords of SQL.
var builtin = map[string][]Column{
	"apiservices.apiregistration.k8s.io": {at("service", Pair, "spec.service.namespace", "spec.service.name"),
		found("available", "status.conditions", "type", "Available", "status")},
	"certificatesigningrequests.certificates.k8s.io": {text("signername", "spec.signerName"), text("requestor", "spec.username"), computed("condition", "signing condition"),
		number("requested_seconds", "spec.expirationSeconds")},
	"clusterrolebindings.rbac.authorization.k8s.io": bindings,
	"clustertrustbundles.certificates.k8s.io":       {text("signername", "spec.signerName")},
	"compositepodgroups.scheduling.k8s.io":          {computed("policy", "pod group policy"), text("workload", "spec.workloadRef.workloadName")},
	"configmaps":                                    {at("data", Size, "data", "binaryData")},
	"controllerrevisions.apps":                      {computed("controller", "owning controller"), number("revision", "revision")},
	"cronjobs.batch": template("spec.jobTemplate.spec.template", text("schedule", "spec.schedule"), text("timezone", "spec.timeZone"),
		at("suspend", Bool, "spec.suspend"), at("active", Size, "status.active"),
		text("last_schedule_time", "status.lastScheduleTime"), at("selector", JSON, "spec.jobTemplate.spec.selector")),
	"csidrivers.storage.k8s.io": {at("attachrequired", Bool, "spec.attachRequired"), at("podinfoonmount", Bool, "spec.podInfoOnMount"),
		at("storagecapacity", Bool, "spec.storageCapacity"), at("tokenrequests", Join, "spec.tokenRequests", "audience"),
		at("requiresrepublish", Bool, "spec.requiresRepublish"), at("modes", Join, "spec.volumeLifecycleModes")},
	"csinodes.storage.k8s.io":             {at("drivers", Size, "spec.drivers")},
	"csistoragecapacities.storage.k8s.io": {text("storageclassname", "storageClassName"), text("capacity", "capacity")},
	"customresourcedefinitions.apiextensions.k8s.io": {
		text("group_name", "spec.group"), text("kind", "spec.names.kind"), text("scope", "spec.scope"),
		found("established", "status.conditions", "type", "Established", "status"), at("versions", Join, "spec.versions", "name"),
		at("shortnames", Join, "spec.names.shortNames")},
	"daemonsets.apps": template("spec.template", number("desired", "status.desiredNumberScheduled"), number("current", "status.currentNumberScheduled"),
		number("ready", "status.numberReady"), at("up_to_date", Count, "status.updatedNumberScheduled"),
		at("available", Count, "status.numberAvailable"), at("node_selector", JSON, "spec.template.spec.nodeSelector"),
		at("selector", JSON, "spec.selector")),
	"deployments.apps": template("spec.template", at("ready", Ratio, "status.readyReplicas", "spec.replicas"), at("up_to_date", Count, "status.updatedReplicas"),
		at("available", Count, "status.availableReplicas"), at("selector", JSON, "spec.selector")),
	"devicetaintrules.resource.k8s.io": {text("key", "spec.taint.key"), text("value", "spec.taint.value"), text("effect", "spec.taint.effect"),
		text("timeadded", "spec.taint.timeAdded")},
	"endpoints":                       {computed("endpoints", "endpoints")},
	"endpointslices.discovery.k8s.io": {text("addresstype", "addressType"), computed("ports", "slice ports"), computed("endpoints", "slice endpoints")},
	"events": {text("type", "type"), text("reason", "reason"), text("message", "message"), at("count", Text, "series.count", "count"),
		computed("last_time", "event last"), computed("first_time", "event first"), computed("printed_object", "event object"), computed("source", "event source"), text("involved_kind", "involvedObject.kind"), text("involved_namespace", "involvedObject.namespace"),
		text("involved_name", "involvedObject.name"), text("involved_uid", "involvedObject.uid"),
		text("subobject", "involvedObject.fieldPath")},
	"evictionrequests.lifecycle.k8s.io": append(eviction, text("requester", "spec.requester"), text("intent", "spec.intent")),
	"evictions.lifecycle.k8s.io": append(eviction, computed("active_responder", "responder name"), computed("requesters", "eviction requesters"),
		computed("responder_state", "responder state"), computed("responder_expected_time", "responder expected"),
		computed("responder_heartbeat_time", "responder heartbeat"), computed("responder_status_message", "responder message")),
	"flowschemas.flowcontrol.apiserver.k8s.io": {text("prioritylevel", "spec.priorityLevelConfiguration.name"),
		number("matchingprecedence", "spec.matchingPrecedence"), text("distinguishermethod", "spec.distinguisherMethod.type"),
		computed("missingpl", "flow dangling")},
	"horizontalpodautoscalers.autoscaling": {at("reference", Pair, "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"),
		number("minpods", "spec.minReplicas"), number("maxpods", "spec.maxReplicas"), at("replicas", Count, "status.currentReplicas"), computed("targets", "autoscaler targets")},
	"ingressclasses.networking.k8s.io": {text("controller", "spec.controller"), computed("parameters", "ingress class parameters")},
	"ingresses.networking.k8s.io": {text("class", "spec.ingressClassName"), computed("hosts", "ingress hosts"), computed("address", "ingress addresses"),
		computed("ports", "ingress ports"), at("all_hosts", Join, "spec.rules", "host")},
	"ipaddresses.networking.k8s.io": {computed("parentref", "address parent")},
	"jobs.batch": template("spec.template", computed("printed_status", "job status"), computed("completions", "job completions"), computed("duration_seconds", "job seconds"), number("wanted", "spec.completions"), at("running", Count, "status.active"),
		at("succeeded", Count, "status.succeeded"), at("failed", Count, "status.failed"), at("selector", JSON, "spec.selector")),
	"leasecandidates.coordination.k8s.io": {text("leasename", "spec.leaseName"), text("binaryversion", "spec.binaryVersion"),
		text("emulationversion", "spec.emulationVersion")},
	"leases.coordination.k8s.io": {text("holder", "spec.holderIdentity"), text("renewed", "spec.renewTime")},
	"mutatingadmissionpolicies.admissionregistration.k8s.io": {at("mutations", Size, "spec.mutations"),
		at("paramkind", Pair, "spec.paramKind.apiVersion", "spec.paramKind.kind")},
	"mutatingadmissionpolicybindings.admissionregistration.k8s.io": {text("policyname", "spec.policyName"), computed("paramref", "policy parameter")},
	"mutatingwebhookconfigurations.admissionregistration.k8s.io":   {at("webhooks", Size, "webhooks")},
	"namespaces":                        {text("printed_status", "status.phase"), text("phase", "status.phase")},
	"networkpolicies.networking.k8s.io": {at("pod_selector", JSON, "spec.podSelector")},
	"nodes": {computed("printed_status", "node status"), computed("roles", "node roles"), text("version", "status.nodeInfo.kubeletVersion"), found("internal_ip", "status.addresses", "type", "InternalIP", "address"),
		found("external_ip", "status.addresses", "type", "ExternalIP", "address"), text("os_image", "status.nodeInfo.osImage"),
		text("kernel_version", "status.nodeInfo.kernelVersion"), text("container_runtime", "status.nodeInfo.containerRuntimeVersion"),
		found("ready", "status.conditions", "type", "Ready", "status"), at("unschedulable", Bool, "spec.unschedulable")},
	"persistentvolumeclaims": {computed("printed_status", "volume status"), text("volume", "spec.volumeName"), computed("access_modes", "claim modes"), text("storageclass", "spec.storageClassName"),
		text("volumeattributesclass", "spec.volumeAttributesClassName"), text("volumemode", "spec.volumeMode"),
		text("phase", "status.phase"), text("requested", "spec.resources.requests.storage"), text("capacity", "status.capacity.storage")},
	"persistentvolumes": {text("capacity", "spec.capacity.storage"), computed("access_modes", "volume modes"), computed("printed_status", "volume status"), text("reclaim_policy", "spec.persistentVolumeReclaimPolicy"),
		at("claim", Pair, "spec.claimRef.namespace", "spec.claimRef.name"), text("storageclass", "spec.storageClassName"),
		text("volumeattributesclass", "spec.volumeAttributesClassName"), text("reason", "status.reason"), text("volumemode", "spec.volumeMode"),
		text("phase", "status.phase")},
	"podcertificaterequests.certificates.k8s.io": {text("podname", "spec.podName"), text("serviceaccountname", "spec.serviceAccountName"),
		text("nodename", "spec.nodeName"), text("signername", "spec.signerName"), computed("state", "pod certificate state"),
		at("unverifieduserannotations", JSON, "spec.unverifiedUserAnnotations")},
	"podgroups.scheduling.k8s.io": {computed("policy", "pod group policy"), text("workload", "spec.workloadRef.workloadName"),
		computed("printed_status", "pod group status")},
	"poddisruptionbudgets.policy": {text("min_available", "spec.minAvailable"), text("max_unavailable", "spec.maxUnavailable"),
		at("allowed_disruptions", Count, "status.disruptionsAllowed")},
	"pods": {computed("ready", "pod ready"), computed("printed_status", "pod status"), computed("restarts", "pod restarts"), text("ip", "status.podIP"),
		text("node", "spec.nodeName"), text("nominated_node", "status.nominatedNodeName"), computed("readiness_gates", "pod gates"),
		text("phase", "status.phase"), text("service_account", "spec.serviceAccountName"), text("qos_class", "status.qosClass")},
	"podtemplates": template("template", at("pod_labels", JSON, "template.metadata.labels")),
	"priorityclasses.scheduling.k8s.io": {number("value", "value"), at("global_default", Bool, "globalDefault"),
		text("preemptionpolicy", "preemptionPolicy")},
	"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io": {text("type", "spec.type"),
		number("nominalconcurrencyshares", "spec.limited.nominalConcurrencyShares"), number("queues", "spec.limited.limitResponse.queuing.queues"),
		number("handsize", "spec.limited.limitResponse.queuing.handSize"),
		number("queuelengthlimit", "spec.limited.limitResponse.queuing.queueLengthLimit")},
	"replicasets.apps":               replicas(),
	"replicationcontrollers":         replicas(),
	"resourceclaims.resource.k8s.io": {computed("state", "claim state")},
	"resourcepoolstatusrequests.resource.k8s.io": {text("driver", "spec.driver"), computed("total", "pools total"), computed("available", "pools available"),
		computed("allocated", "pools allocated"), computed("unavailable", "pools unavailable"), computed("errors", "pools errors"), at("pools", Count, "status.poolCount"),
		computed("printed_status", "pools status"), computed("completed_time", "pools completed")},
	"resourcequotas":                         {computed("request", "quota requests"), computed("limits", "quota limits")},
	"resourceslices.resource.k8s.io":         {text("node", "spec.nodeName"), text("driver", "spec.driver"), text("pool", "spec.pool.name")},
	"rolebindings.rbac.authorization.k8s.io": bindings,
	"runtimeclasses.node.k8s.io":             {text("handler", "handler")},
	"secrets":                                {text("type", "type"), at("data", Size, "data")},
	"serviceaccounts":                        {at("secrets", Size, "secrets")},
	"servicecidrs.networking.k8s.io":         {at("cidrs", Join, "spec.cidrs")},
	"services":                               {text("type", "spec.type"), text("cluster_ip", "spec.clusterIP"), computed("external_ip", "service external ip"), computed("ports", "service ports"), at("selector", JSON, "spec.selector")},
	"statefulsets.apps":                      template("spec.template", at("ready", Ratio, "status.readyReplicas", "spec.replicas")),
	"storageclasses.storage.k8s.io": {text("provisioner", "provisioner"), text("reclaimpolicy", "reclaimPolicy"),
		text("volumebindingmode", "volumeBindingMode"), at("allowvolumeexpansion", Bool, "allowVolumeExpansion")},
	"storageversionmigrations.storagemigration.k8s.io": {computed("resource", "migration resource"), computed("printed_status", "migration status")},
	"storageversions.internal.apiserver.k8s.io": {text("commonencodingversion", "status.commonEncodingVersion"),
		computed("storageversions", "storage versions")},
	"validatingadmissionpolicies.admissionregistration.k8s.io": {at("validations", Size, "spec.validations"),
		at("paramkind", Pair, "spec.paramKind.apiVersion", "spec.paramKind.kind")},
	"validatingadmissionpolicybindings.admissionregistration.k8s.io": {text("policyname", "spec.policyName"), computed("paramref", "policy parameter")},
	"validatingwebhookconfigurations.admissionregistration.k8s.io":   {at("webhooks", Size, "webhooks")},
	"volumeattachments.storage.k8s.io": {text("attacher", "spec.attacher"), text("pv", "spec.source.persistentVolumeName"),
		text("node", "spec.nodeName"), at("attached", Bool, "status.attached")},
	"volumeattributesclasses.storage.k8s.io": {text("drivername", "driverName")},
}

// secrets is the resource whose data views must not show.
const secrets = "secrets"

// OfBuiltin returns the view of a built-in type.
func OfBuiltin(resource string) View {
	return View{Name: viewName(resource), Resource: resource, Secret: resource == secrets, Columns: builtin[resource]}
}

// OfCatalog returns the views of the stored built-in types in a catalog.
func OfCatalog(catalog *resources.Catalog) (views []View) {
	seen := map[string]bool{}
	for t := range catalog.Types {
		if name := t.ResourceName(); !t.Untyped && t.Stored() && !seen[name] {
			seen[name] = true
			views = append(views, OfBuiltin(name))
		}
	}
	return views
}
