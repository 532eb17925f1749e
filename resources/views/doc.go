// Package views says which views of the objects people have in SQL: one for each resource that is served, with the columns that kubectl
// prints as far as these are read off an object, and not computed. It knows no SQL: sqlstore makes of it the views of a
// SQLite file, those of a Postgres, and the ones that `rowlock sql` asks.
//
// A view is named after its resource, "pods" or "deployments.apps", and is of the objects as they are stored: in the storage version of
// their type. Those of built-in types are written down in builtin.go; that of a custom resource is made of its definition, and comes and
// goes with it (Keeper). docs/sql.md has what is promised to users.
//
//	view.go        a view, its columns and their kinds
//	names.go       what views are called
//	builtin.go     the columns of built-in types
//	definition.go  those of a CustomResourceDefinition
//	jsonpath.go    which paths can be read
//	keep.go        Keeper
package views
