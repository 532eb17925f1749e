// Package untypedjson reads JSON of objects without a Go type, as those of custom resources are. Package typedjson, which also writes
// them, imports the Go types of the API and their dependencies; this package imports none of them.
package untypedjson
