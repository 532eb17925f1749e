// Package history serves the object history as an API group, history.rowlock.dev/v1, which is read-only: revisions are the writes in the
// history of objects in a namespace, trash those of them that are deletions; clusterrevisions and clustertrash are the same for objects
// without a namespace. docs/history.md is its documentation for users.
//
//	group.go      the group and its types
//	schema.go     the schema of the objects, and their columns
//	find.go       get and list
//	allowed.go    the rights of a reader
//	policy.go     the role that every user has
//
// # Invariants
//
//   - A user learns nothing of an object by its history that they may not read themselves. A user who gets a revision, or lists those of one
//     object, must be allowed to get the object; one who lists those of a resource, to list and get that in the namespace of the list; of all,
//     to list and get everything there. The right to list or get revisions is checked besides.
//   - A list begins with every write that was acknowledged before it, and a revision can be got as soon as its write was
//     acknowledged: the history is brought up to date first.
//   - A list is complete, or has a continue token, or is refused.
package history
