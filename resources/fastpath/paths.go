package fastpath

// All fast paths. docs/fast-paths.md describes what each covers, and what it is compared with.
var (
	JSONDecode = register("json-decode", "objects are read from JSON, those of Go types by functions made of each type once")
	JSONEncode = register("json-encode", "objects are written as JSON, those of Go types by functions made of each type once")
	StoredKind = register("stored-kind", "stored objects whose first bytes are the kind expected are decoded without finding it out")
	BodyKind   = register("body-kind", "bodies and patched objects of the kind expected are decoded without finding it out")

	StoredJSON = register("stored-json", "stored bytes are sent as they are where their version is asked for")
	Metadata   = register("metadata", "the metadata of stored bytes is sent as it is")
	Cells      = register("cells", "the cells of a Table are printed once, when an object is written")
	Protobuf   = register("protobuf", "protobuf is made of stored bytes, without the Go type between")
	Streaming  = register("streaming", "lists that are indented or in YAML are written an object at a time")
	GzipRuns   = register("gzip-runs", "compressed lists are joined of runs that are kept compressed")
	OpenAPI    = register("openapi", "OpenAPI documents are sent that were prepared when the program was built, and custom resources are described a type at a time, from the text of their schemas")

	ManagedFields  = register("managed-fields", "the owners of fields are found by one walk over both objects")
	Equality       = register("equality", "upstream's equality.Semantic compares large types without reflection")
	Declared       = register("declared", "what the tags of Go types declare is found to hold without a copy of the object")
	MergePatch     = register("merge-patch", "a merge patch is laid over the text of an object")
	StrategicPatch = register("strategic-patch", "a strategic merge patch is laid over the text of an object")
	JSONPatch      = register("json-patch", "a JSON patch is applied by version 5 of the library")
	ApplyJSON      = register("apply-json", "an apply configuration that is JSON is not read as YAML")
	Owners         = register("owners", "the controllers read owners and finalizers from stored bytes")

	CustomValidation  = register("custom-validation", "custom resources are found valid along plans that are made of each schema once")
	CustomDefaults    = register("custom-defaults", "custom resources that have nothing to lose are found, and defaulted, along the same plans")
	CustomPlans       = register("custom-plans", "what custom resources are validated and owned by is made of the stored text of their schemas")
	CustomCEL         = register("custom-cel", "rules in CEL of custom resources are found to hold by closures that are made of each schema once")
	Definitions       = register("definitions", "what was found valid of the schemas of a definition of custom resources is not validated again")
	DefinitionSchemas = register("definition-schemas", "the schemas of new definitions of custom resources go to the store as text, which is read when they are validated for the first time")
	Repeats           = register("repeats", "an update of a definition that changed nothing changes nothing when it comes again")

	Sketches   = register("sketches", "a list with selectors reads the labels and fields of no object whose sketch says that it has not what they need")
	Selections = register("selections", "writes that no webhook or policy is for are found without upstream's plugins")
	Seats      = register("seats", "requests take seats of a priority level beside its queues while nobody waits")

	HTTP2 = register("http2", "HTTP/2 is served by a server of our own; a connection stays with the one it began with")
)
