// Package resources says what exists: the registry of resource types, the rules of each, and the contract of the
// store that keeps their objects. It knows neither HTTP nor SQL.
//
// The package is the middle of Rowlock. Package server asks it what a request means for a type and hands finished
// objects to the Store; package sqlstore implements the Store. Neither imports the other.
//
//	store.go     the Store contract: Reader, Writer, Watcher, and every error they return
//	object.go    one revision of one object, as bytes
//	update.go    the read-modify-commit loop over a Store
//	type.go      a resource type: its versions, strategies, columns, selectors, subresources
//	registry.go  the set of types that exist now; it changes while the server runs
//	admission/   kube-apiserver's admission plugins
//	builtin/     the types that kube-apiserver serves by default, from upstream's packages
//	equality/    upstream's semantic equality, made quick
package resources
