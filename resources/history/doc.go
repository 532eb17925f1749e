// Package history serves the object history as an API group, history.rowlock.dev/v1, that is read and never written: revisions are the
// writes that the history has of objects in a namespace, trash those of them that are deletions; clusterrevisions and clustertrash are
// the same of objects without a namespace. docs/history.md is for those who use it.
//
//	group.go      the group and its types
//	schema.go     what objects look like: their schema and their columns
//	find.go       get and list
//	allowed.go    who may see what
//	policy.go     the role that everybody has
//
// # Invariants
//
//   - Nobody learns of an object by its history what they may not read themselves. Who gets a revision, or lists those of one object, must
//     be allowed to get the object; who lists those of a resource, to list and get that in the namespace of the list; of all, to list and
//     get everything there. That is asked besides whether they may list or get revisions.
//   - A list begins with every write that was acknowledged before it, and a revision can be got as soon as its write was
//     acknowledged: the history is brought up to date first.
//   - A list is whole, or says where it goes on, or is refused.
package history
