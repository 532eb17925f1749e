// Package transcode makes the protobuf message of a Kubernetes object out of its JSON, without the Go value between.
//
// To decode the JSON of a pod into its Go type and to encode that takes 140 µs and leaves ten times the pod's size behind
// as garbage; to go from one text to the other takes a tenth, and leaves nothing. A list of a hundred thousand objects
// depends on it: it is gone through twice, since the length of the whole stands at its beginning.
//
// What a message looks like is read from the Go type once (message.go): the fields with their numbers from the protobuf
// tags, their names in JSON from the json tags, and what upstream's generated code writes for a field that is absent.
// The JSON is then gone through field by field (encode.go).
//
// The JSON has to be what encoding/json wrote of a value of the type: compact, its keys once each, those of maps in
// order. Whatever is otherwise makes Append say that it cannot (ok is false), and the caller goes through the Go type.
// That the result is that of upstream's Marshal, byte for byte, is tested with random objects of every type.
package transcode
