// Package views defines the views of the objects in SQL: one for each served resource, with the columns that kubectl prints. It
// knows no SQL: sqlstore makes from it the views of a SQLite file, those of a Postgres, and the ones that `rowlock sql` queries.
//
// A view is named after its resource, "pods" or "deployments.apps", and shows the objects as they are stored: in the storage version of
// their type. Those of built-in types are listed in builtin.txt; that of a custom resource is made from its definition, and is added and
// removed with it (Keeper). docs/sql.md has the promises to users.
//
//	view.go        a view, its columns and their kinds
//	names.go       the names of views
//	builtin.go     the columns of built-in types, which builtin.txt lists
//	definition.go  those of a CustomResourceDefinition
//	jsonpath.go    the supported paths
//	keep.go        Keeper
package views
