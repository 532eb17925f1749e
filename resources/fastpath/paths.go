package fastpath

// All fast paths. docs/fast-paths.md says of each what it covers, and what it is compared with.
var (
	JSONDecode = register("json-decode", "objects of Go types are read from JSON by plans")
	JSONEncode = register("json-encode", "objects of Go types are written as JSON by plans")
	Protobuf   = register("protobuf", "protobuf is made of stored bytes, without the Go type between")

	ManagedFields = register("managed-fields", "the owners of fields are found by a walk along plans")
	MergePatch    = register("merge-patch", "a merge patch is laid over the text of an object")
	JSONPatch     = register("json-patch", "a JSON patch is applied by version 5 of the library")
	ApplyJSON     = register("apply-json", "an apply configuration that is JSON is not read as YAML")
)
