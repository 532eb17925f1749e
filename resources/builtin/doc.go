// Package builtin has every resource type that kube-apiserver v1.37 serves by default, as data for a
// resources.Registry. The rules of a type come from upstream's packages; the properties that upstream keeps in its storage packages
// (names, selectable fields, subresources, life span) are declared here, one declaration per type.
//
//	scheme.go      every version of every group, and their conversions
//	define.go      how a type is declared
//	groups.go      all groups, and the parts of a server that some types depend on
//	runtimeconfig.go  the versions and resources that are served; early.go the alpha and beta versions
//	<group>.go     the types of one API group; small.go those of groups with one type
//	pods.go        pods, and their operations: binding.go, eviction.go with budget.go
//	service.go     services, and their allocations: service_supply.go, service_addresses.go, service_ports.go
//	scale.go       the scale subresource
//	deletion.go    types with their own rules of deletion
//	connect*.go    connections to a kubelet or a pod: logs, exec, proxies
//	tokenrequest.go tokens of ServiceAccounts
//	find.go        objects that rules look up
//	componentstatus.go  ComponentStatuses
//	escalation.go  what users may put into roles and bindings; coverage.go compares it with what they have
//	auth.go        the reviews of access and identity
package builtin
