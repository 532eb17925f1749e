// Package fieldmanager keeps metadata.managedFields: who set which field of an object. It is Server-Side Apply (KEP-555)
// and the bookkeeping that every other write does for it.
//
// The behaviour is that of k8s.io/apimachinery's managedfields, byte for byte: a fuzz test runs both on the same objects
// and compares. That manager converts objects back and forth, validates them against their schema and builds sets of
// paths from them several times per write. Here one walk over the old and the new object, led by nodes that are compiled once per
// type, writes down the paths that differ; sets of paths are kept in the serialised form of their elements, so
// that entries that a write does not touch are never rebuilt. What the walk does not cover (entries in other
// versions, duplicate keys, conflicts, objects that do not fit their schema) is handed to upstream's manager, which
// stays the authority, and is counted.
//
//	manager.go        Manager and its Config; when upstream's manager is asked instead
//	update.go         every write but Apply; apply.go, Server-Side Apply; write.go, what both share
//	prune.go          what an Apply takes away
//	timestamps.go     writes without effect
//	upstream.go       upstream's manager and its type converter, made when first needed
//	entries.go        entries of managedFields: reading, matching, sorting, writing
//	managed_untyped.go  entries in objects without a Go type
//	pathset.go        a set of paths; pathset_json.go, its serialised form; element.go, one element of a path
//	kind.go           what a manager knows of its kind
//	schema.go         the schema of the built-in types (schema.txt.gz, written by schemagen)
//	typed_node.go     a Go type with its schema, compiled, for diff.go, the walk over two typed objects; equal.go, leaves
//	stored.go         a schema of custom resources, compiled from its text
//	schema_node.go    a schema alone, compiled, for sets of paths and for objects that are maps:
//	untyped*.go       validity, paths, differences and merging of those (custom resources, patches of Apply)
package fieldmanager
