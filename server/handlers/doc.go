// Package handlers answers the verbs of the API for every resource type: one file a verb.
//
//	handlers.go  what all verbs share; the table from verb to handler
//	request.go   one request on its way: its type, subresource, namespace; options.go, the options of writes
//	get.go list.go watch.go create.go update.go patch*.go delete.go deletecollection.go
//	body.go      reading and decoding what clients send
//	respond.go   writing what the codec made; projection.go, subresources that show something else than the object
//	continue.go  tokens by which a list goes on; deprecation.go, warnings about versions that are on their way out
//	shard.go     lists and watches of a shard of a collection
//	managers.go  field managers, one for each type, version and subresource
//	joined.go    lists that are joined of compressed runs; compress.go, gzip of other answers
//	frames.go    where the frames of a watch go; websocket*.go, over WebSocket; watch_pace.go, many watches of one type;
//	             watch_steps.go, what a watch does when; watch_sequel.go, later.go, one that goes on without its handler
//	connect.go   subresources that are passed on to a kubelet, a pod or a Service
//	audit.go     what is recorded of a request
//	computed.go  types whose objects are computed when they are asked for
package handlers
