// Package authz authorizes requests: it has kube-apiserver's authorizers, which decide from memory.
//
//	modes.go     the chain of authorizers of --authorization-mode, or of a file (file.go); chain.go creates them
//	rbac.go      RBAC: upstream's rules, for the bindings that name the user or one of their groups
//	node.go      what kubelets may read: upstream's authorizer and its graph
//	index.go     the index of bindings by their subjects, and of roles
//	feed.go      keeping an index in step with the store
//
// # Invariants
//
//   - A decision reflects every write that this server acknowledged before the request arrived: a permission that was just
//     granted or revoked takes effect with the next request. It reflects writes of other servers on the database as soon
//     as the store reports them.
//   - If the state is not known, the request is denied: when the store cannot report the changes, the result is an error and
//     not an outdated decision.
//   - A decision reads only the bindings of its user and groups, cluster-wide and in one namespace.
package authz
