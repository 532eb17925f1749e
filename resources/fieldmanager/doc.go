// Package fieldmanager maintains metadata.managedFields, the ownership of the fields of an object. It implements Server-Side
// Apply (KEP-555) and the bookkeeping that every other write does for it.
//
// The behaviour is that of k8s.io/apimachinery's managedfields, byte for byte: a fuzz test runs both on the same objects
// and compares. That manager converts objects back and forth, validates them against their schema and builds sets of
// paths from them several times per write. Here one walk over the old and the new object, along nodes that are compiled once per
// type, records the paths that differ; sets of paths are kept in the serialised form of their elements, so
// that entries that a write does not touch are never rebuilt. All that the walk does not cover (entries in other
// versions, duplicate keys, conflicts, objects that do not fit their schema) goes to upstream's manager, which
// stays the authority, and is counted.
//
//	manager.go        Manager and its Config; when upstream's manager is called instead
//	update.go         every write but Apply; apply.go, Server-Side Apply; write.go, the common part
//	prune.go          the fields that an Apply removes
//	timestamps.go     writes without effect; timestamps_raw.go, those to objects without a Go type
//	upstream.go       upstream's manager and its type converter, made on first use
//	entries.go        entries of managedFields: reading, matching, sorting, writing
//	managed_untyped.go  entries in objects without a Go type
//	pathset.go        a set of paths; pathset_json.go, its serialised form; element.go, one element of a path
//	kind.go           the compiled schema and type of a manager's kind
//	schema.go         the schema of the built-in types (schema.txt.gz, written by schemagen)
//	typed_node.go     a Go type with its schema, compiled, for diff.go, the walk over two typed objects; equal.go, leaves
//	stored.go         a schema of custom resources, compiled from its text
//	schema_node.go    a schema alone, compiled, for sets of paths and for objects that are maps:
//	untyped*.go       validity, paths, differences and merging of those (custom resources, patches of Apply)
package fieldmanager
