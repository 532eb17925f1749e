// Package resources has the registry of resource types, the rules of each type, and the contract of the
// store that keeps their objects. It knows neither HTTP nor SQL.
//
// The package is the middle of Rowlock. Package server applies the rules of a type to a request and hands finished
// objects to the Store; package sqlstore implements the Store. Neither imports the other.
//
// Types:
//
//	type.go          a resource type: its rules, selectors, columns, subresources
//	served.go        a type as one version of a group shows it; group.go, a group and its versions
//	registry.go      the groups that are served now, which change while the server runs; groupindex.go finds them by name
//	equivalents.go   the other names under which the objects of a type are served
//	openapi.go       the OpenAPI schema of a type without a Go type
//	computed.go      types whose objects are computed for each request, and not stored
//	mapper.go        kinds and resources, as upstream's interfaces want them
//
// Objects:
//
//	object.go        one revision of one object, as bytes; forms.go, the encodings that are kept with it
//	sketch.go        a Bloom filter of the labels and of the fields of an object, which selectors read first
//	layout.go        how stored bytes are laid out; sent.go, objects whose stored bytes are not those shown
//	codec.go         from stored bytes to Go objects and back; cells.go, to rows of Tables
//	kept.go          objects in the version that they are stored in
//	packed.go        objects that are kept compressed
//	unreadable.go    objects that cannot be decrypted
//	delete_unread.go their deletion
//	projection.go    subresources that show another kind than the object's, as Scale
//
// The store:
//
//	store.go         the contract: Reader, Writer, Watcher, and every error they return
//	storable.go      which keys a store takes; resource_version.go, revisions as clients write them
//	rows.go          access to Rowlock's own rows, which no API serves
//	revision.go      the object history, for people
//	author.go        the author of a change
//	stored.go        the check of an object in a database
//
// Writes:
//
//	pipeline.go      the one path of every write; actor.go, the users of the server's own writes; identity.go, the ID of this server
//	create.go, update.go (update_create.go, where it creates), delete.go, deletecollection.go, operate.go
//	                 the kinds of writes; an operation is a create that is an action, as an eviction
//	guaranteed.go    the loop of read, change and commit, which begins again after a conflict
//	gone.go          errors of writes which say that the object is gone
//	changed.go       the new object of an update, before the rules; repeat.go, updates that changed nothing before
//	audit.go         the interface to the audit; timed.go, the duration of commits
//	shares.go        the objects that a write allocates and frees for its own: requests of the server's own
//	managers.go      the managedFields of an object; unowned.go, rules that do not see them
//	errorlist.go     the bound of the errors in an answer
//	admit.go         admission of a write, before the rules of its type and after them
//	owners.go, servermanager.go
//	                 duplicate owner references; the field manager of the server's own writes
//
// Packages below:
//
//	admission/       kube-apiserver's admission plugins
//	builtin/         the types that kube-apiserver serves by default, from upstream's packages
//	untyped/         types without a Go type
//	custom/          types that CustomResourceDefinitions define
//	history/         the API group of the object history
//	views/           the views for SQL
//	imports/         objects from the data that kube-apiserver has stored
//	behind/          the endpoints behind Services
//	indexer/         the indexers that upstream's listers read
//	fieldmanager/    field ownership: Server-Side Apply, and the managedFields of every other write
//	files/           files and directories below a data directory, and their owners
//	follow/          notification of the changes of objects
//	typedjson/, gotype/, jsonscan/
//	                 JSON of Go types, read and written by code that is compiled once per type
//	untypedjson/     JSON of objects without one, read
//	equality/        upstream's semantic equality, made quick
//	fastpath/        the list of the fast paths, and their switches
//	upstream/        the changes to upstream's packages, the copies of them, and the assumptions about them
//	storetest/       the contract of the store, as tests
package resources
