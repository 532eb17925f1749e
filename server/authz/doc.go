// Package authz says who may do what: kube-apiserver's authorizers, answered from memory.
//
//	modes.go     the authorizers of --authorization-mode, or of a file (file.go), one after the other; chain.go makes them
//	rbac.go      RBAC: upstream's rules, asked of the bindings that name the user or a group of theirs
//	node.go      what kubelets may read: upstream's authorizer and its graph
//	index.go     the bindings by whom they name, and the roles
//	feed.go      what keeps an index in step with the store
//
// # Invariants
//
//   - A decision knows every write that this server had acknowledged before the request came: who was just given a right has
//     it with the next request, and who was just denied it has it no longer. Of what other servers of the database write it
//     knows as soon as the store tells of it.
//   - What cannot be known is denied: when the store cannot say what has changed, the answer is an error and not an old decision.
//   - A decision reads no more than the bindings of its user and groups, cluster-wide and in one namespace.
package authz
