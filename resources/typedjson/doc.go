// Package typedjson reads and writes JSON of the Go types of the API, with a reader and a writer that are compiled once per
// type. It does what sigs.k8s.io/json does in reading and encoding/json in writing, several times as fast, and only where
// the result is certain: for anything unusual ok is false, and the caller uses those packages.
//
//	fields.go       the fields of a struct by their json tags
//	readers.go      the readers of types
//	decode.go       reading with a reader; package jsonscan reads the text itself
//	writers.go      the writers of types; encode_omit.go, when fields are omitted
//	schema.go       nested schemas of custom resources, both ways
//	encode.go       writing with a writer; encode_map.go, encode_leaf.go, types with their own encoding
package typedjson
