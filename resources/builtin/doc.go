// Package builtin holds every resource type that kube-apiserver v1.37 serves by default, as data for a
// resources.Registry. The rules of a type come from upstream's packages; what upstream keeps in its storage packages
// (names, selectable fields, subresources, life span) is said here, one declaration per type.
//
//	scheme.go      every version of every group, and how they convert
//	define.go      how a type is declared
//	groups.go      all groups, and the parts of a server that some types ask
//	runtimeconfig.go  which versions and resources are served; early.go the alpha and beta versions
//	<group>.go     the types of one API group; small.go those of groups with one type
//	pods.go        pods, and what is done to them: binding.go, eviction.go with budget.go
//	service.go     services, and what they take: service_supply.go, service_addresses.go, service_ports.go
//	scale.go       the scale subresource
//	deletion.go    types that are deleted by rules of their own
//	connect*.go    what leads to a kubelet or a pod: logs, exec, proxies
//	tokenrequest.go tokens of ServiceAccounts
//	find.go        objects that rules look up
//	componentstatus.go  ComponentStatuses
//	auth.go        the reviews of access and identity
package builtin
