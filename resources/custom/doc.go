// Package custom serves custom resources: it makes the types that CustomResourceDefinitions define, keeps what is served in step
// with the definitions that are stored, and has the rules of the definitions themselves.
//
//	definitions.go  keeps the registry in step with the stored definitions
//	load.go         reads all of them when there is nothing to follow yet
//	definition.go   one definition as it is at a revision, and its types
//	bones.go        a definition without its schemas, and what stands for them
//	byversion.go    what there is of each version of one
//	compiled.go     what was compiled of schemas, within a bound
//	rest.go         what is given back at rest
//	schema.go       the structural schema of a version, compiled when it is first needed
//	coerce.go       prunes what objects have and the schema does not know, and fills in defaults
//	clean.go        objects that need none of that
//	plainmeta.go    metadata that needs none
//	plan/           plans of schemas, along which objects are validated, pruned and defaulted quickly
//	strategy.go     the rules of writes: those without a schema are upstream's
//	heavy.go        those with one: by the plan, or upstream's; compiled when something is first validated
//	columns.go      the columns of Tables
//	scale.go        the subresource scale
//	fields.go       the schema that the ownership of fields goes by
//	expressions.go  the rules in CEL
//	metrics.go      what is compiled, and how much memory it takes
//	webhook.go      conversion by webhook
//	lines.go        requests to conversion webhooks
//	conversions.go  conversions of many objects at once, each remembered with its object
//	current.go      whether what is stored is what is shown
//	allocate.go     what is written with a definition
//	form.go         which definitions show objects by the same bytes; sieve.go: fields that a version does not have make no difference
//	validated.go    schemas that were found valid; digest.go: what stands for them; seen.go: what is remembered of it
//	lean.go         the schemas of definitions go to the store as text; canonical.go: that in the order in which it is stored
//	leanvalid.go    such text is found valid: parts.go says what of it upstream has to look at, beside what is plain (plain.go), and
//	                without the rules in CEL, which are looked at by their places (ruled.go) and once for each schema (verdict.go)
//	rules.go        what is special about writes of definitions
//	names.go        which names a definition is given, and the conditions that follow
//	structure.go    the condition of schemas that are not structural
//
// # Invariants
//
//   - A definition, its conditions and the APIServices of its versions are written by one transaction. A definition that was
//     acknowledged is served: no client has to wait.
//   - No object is stored by a definition that is not the present one: every write of a custom resource is committed under the
//     condition that its definition is at the revision whose rules were applied (resources.Type.Requires).
//   - Two definitions of a group never accept the same name: every write that gives or takes names raises the group's own row,
//     under the condition that nobody else did.
//   - A version that keeps its form while its definition changes (resources.Type.Form) shows every object that is stored by the same bytes
//     as before: watches of it go on, and what was made of objects is used again.
//   - A definition goes when the last of its objects has gone, and none is created once it is being deleted. A definition that is
//     created again under the name finds nothing.
package custom
