// Package resources says what exists: the registry of resource types, the rules of each, and the contract of the
// store that keeps their objects. It knows neither HTTP nor SQL.
//
// The package is the middle of Rowlock. Package server asks it what a request means for a type and hands finished
// objects to the Store; package sqlstore implements the Store. Neither imports the other.
//
// Types:
//
//	type.go          a resource type: its rules, selectors, columns, subresources
//	served.go        a type as one version of a group shows it; group.go, a group and its versions
//	registry.go      the groups that exist now, which change while the server runs; groupindex.go finds them by name
//	equivalents.go   under which other names the objects of a type are served
//	openapi.go       what a type without a Go type says of itself to OpenAPI
//	computed.go      types whose objects are computed for each request, and not stored
//	mapper.go        kinds and resources, as upstream asks for them
//
// Objects:
//
//	object.go        one revision of one object, as bytes; forms.go, the encodings that are kept with it
//	sketch.go        which labels and fields an object may have, in two words: what a selector asks first
//	layout.go        how stored bytes are laid out; sent.go, objects whose stored bytes are not those shown
//	codec.go         from stored bytes to Go objects and back; cells.go, to rows of Tables
//	kept.go          objects in the version that they are stored in
//	packed.go        objects that are kept compressed
//	unreadable.go    objects that cannot be decrypted
//	delete_unread.go their deletion
//	projection.go    subresources that show something else than the object, as Scale
//
// The store:
//
//	store.go         the contract: Reader, Writer, Watcher, and every error they return
//	storable.go      which keys a store takes; resource_version.go, revisions as clients write them
//	rows.go          the door to Rowlock's own rows, which no API serves
//	revision.go      the object history, for people
//	author.go        who made a change
//	stored.go        what is wrong with an object that a database has
//
// Writes:
//
//	pipeline.go      the one way of every write; actor.go, who writes for the server itself
//	create.go, update.go, delete.go, deletecollection.go, operate.go
//	                 the kinds of writes; an operation is a create that is an action, as an eviction
//	guaranteed.go    the loop of read, change and commit, which begins again after a conflict
//	changed.go       the new object of an update, before the rules; repeat.go, updates that changed nothing before
//	audit.go         what the audit is told of a write; timed.go, how long the store took
//	managers.go      the managedFields of an object; unowned.go, rules that do not see them
//	errorlist.go     how many errors an answer tells
//	admit.go         admission of a write, before the rules of its type and after them
//	owners.go, servermanager.go
//	                 owner references given twice; the field manager of what the server writes
//
// Packages below:
//
//	admission/       kube-apiserver's admission plugins
//	builtin/         the types that kube-apiserver serves by default, from upstream's packages
//	untyped/         types without a Go type
//	custom/          types that CustomResourceDefinitions define
//	history/         the API group of the object history
//	views/           the views for SQL
//	imports/         what kube-apiserver has stored, made objects
//	behind/          what stands behind Services
//	indexer/         what upstream's listers read
//	fieldmanager/    who set which field: Server-Side Apply, and managedFields of every other write
//	files/           files and directories below a data directory, and whose they are
//	follow/          telling of the changes of objects
//	typedjson/, gotype/, jsonscan/
//	                 JSON of Go types, read and written by code that is compiled once per type
//	untypedjson/     JSON of objects without one, read
//	equality/        upstream's semantic equality, made quick
//	fastpath/        the list of the fast paths, and their switches
//	upstream/        what is changed, copied or taken for granted of upstream's packages
//	storetest/       the contract of the store, as tests
package resources
