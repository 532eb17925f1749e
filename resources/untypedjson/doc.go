// Package untypedjson reads JSON of objects without a Go type, as those of custom resources are. Package typedjson, which writes them
// too, knows the Go types of the API and whatever comes with those; this one knows none, for all who have nothing to do with them.
package untypedjson
