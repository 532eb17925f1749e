// Package typedjson reads and writes JSON of the Go types of the API, with a reader and a writer that are compiled once per
// type. It does what sigs.k8s.io/json does in reading and encoding/json in writing, several times as fast, and only where
// that is certain: of anything unusual it says that it cannot do it (ok is false), and the caller uses those packages.
//
//	fields.go       the fields of a struct by their json tags
//	readers.go      how values of a type are read
//	decode.go       reading with a reader; package jsonscan reads the text itself
//	writers.go      how values of a type are written; encode_omit.go, when fields are left out
//	schema.go       schemas of custom resources within each other, both ways
//	encode.go       writing with a writer; encode_map.go, encode_leaf.go, types that have their own way
package typedjson
