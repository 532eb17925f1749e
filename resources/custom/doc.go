// Package custom serves custom resources: it makes the types that CustomResourceDefinitions define, keeps the registry in step
// with the stored definitions, and has the rules of the definitions themselves.
//
//	definitions.go  keeps the registry in step with the stored definitions
//	load.go         reads all of them when there is no watch to follow yet
//	definition.go   one definition at a revision, and its types
//	bones.go        a definition without its schemas, and the hashes of these
//	byversion.go    a map by version
//	compiled.go     the bounded cache of the compiled forms of schemas
//	rest.go         the memory that is released at rest
//	schema.go       the structural schema of a version, compiled when it is first needed
//	coerce.go       prunes fields that the schema does not have, and sets defaults
//	clean.go        objects that need neither
//	plainmeta.go    metadata that needs no pruning
//	plan/           plans of schemas, along which objects are validated, pruned and defaulted quickly
//	strategy.go     the rules of writes: those without a schema are upstream's
//	heavy.go        those with one: by the plan, or upstream's; compiled when an object is first validated
//	columns.go      the columns of Tables
//	scale.go        the subresource scale
//	fields.go       the schema for field ownership
//	expressions.go  the rules in CEL
//	metrics.go      the number and the memory of the compiled forms
//	webhook.go      conversion by webhook
//	lines.go        requests to conversion webhooks
//	conversions.go  conversions of many objects at once, each kept with its object
//	renewed.go      conversions that are made again when the definition has changed
//	current.go      whether an object is stored as it is shown
//	allocate.go     the writes that accompany a definition
//	form.go         which definitions show objects by the same bytes; sieve.go: fields that a version does not have make no difference
//	validated.go    schemas that were found valid; digest.go: their hashes; seen.go: the memory of them
//	lean.go         the schemas of definitions go to the store as text; canonical.go: in the order in which they are stored
//	leanvalid.go    the validation of such text: parts.go selects the parts for upstream, without plain ones (plain.go) and without
//	                the rules in CEL, which are found by their places (ruled.go) and checked once for each schema (verdict.go)
//	rules.go        the special rules for writes of definitions
//	names.go        the names that a definition is given, and the conditions that follow
//	structure.go    the condition of schemas that are not structural
//
// # Invariants
//
//   - A definition, its conditions and the APIServices of its versions are written by one transaction. A definition that was
//     acknowledged is served: no client has to wait.
//   - No object is stored by a definition that is not the present one: every write of a custom resource is committed on
//     condition that its definition is at the revision whose rules were applied (resources.Type.Requires).
//   - Two definitions of a group never accept the same name: every write that allocates or frees names raises the group's own
//     row, on condition that no other write did.
//   - A version that keeps its form while its definition changes (resources.Type.Form) shows every stored object by the same bytes
//     as before: watches of it go on, and results derived from objects are used again. Where a webhook converts, results are made
//     again when the spec changes, and watches of the version end with the first one that differs (resources.Type.Renewed). A watch
//     begins at no revision at which the version may have shown other bytes (resources.Type.Since).
//   - A definition is removed with the last of its objects, and none is created once it is being deleted. A definition that is
//     created again under the name finds no objects.
package custom
