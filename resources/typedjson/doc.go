// Package typedjson reads and writes JSON of the Go types of the API, with plans that are made of each type once. It does
// what sigs.k8s.io/json does in reading and encoding/json in writing, several times as fast, and only where that is
// certain: whatever is out of the ordinary it says it cannot do (ok is false), and the caller goes to those.
//
//	fields.go       the fields of a struct by their json tags
//	plan.go         how values of a type are read
//	decode.go       reading along a plan; scan.go, the text itself; escape.go, escapes in strings
//	encode_plan.go  how values of a type are written; encode_omit.go, when fields are left out
//	encode.go       writing along a plan; encode_map.go, encode_leaf.go, types that have their own way
//	encode_raw.go   JSON that is copied as it is
package typedjson
