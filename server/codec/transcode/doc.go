// Package transcode converts a Kubernetes object's JSON to its protobuf message, without the Go value in between.
//
// Decoding the JSON of a Pod into its Go type and encoding that takes 140 µs and leaves ten times the Pod's size as garbage; direct conversion
// takes a tenth of the time, and leaves no garbage. A list of a hundred thousand objects depends on it: its length prefix requires two passes.
//
// The format of a message is derived from the Go type once (message.go): fields and numbers from the protobuf tags, JSON names from the json tags,
// and the bytes that upstream's generated code writes for an absent field. The JSON (document.go) is then converted field by field (encode.go).
//
// inspect.go looks into a message that a client sent, before it is decoded.
//
// The JSON must be what encoding/json writes for a value of the type: compact, without duplicate keys, with the keys of maps in order. For other
// JSON Append fails (ok is false), and the caller goes through the Go type. Tests with random objects of every type compare the result with
// upstream's Marshal, byte for byte.
package transcode
