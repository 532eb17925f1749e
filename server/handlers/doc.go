// Package handlers implements the verbs of the API for every resource type, one file per verb.
//
//	handlers.go  code common to all verbs; the table from verb to handler
//	route.go     from a path to a type and subresource
//	request.go   the state of a request: its type, subresource, namespace; options.go, the options of writes
//	get.go list.go watch.go create.go update.go patch*.go delete.go deletecollection.go
//	body.go      reading and decoding request bodies; bounds.go, those that are refused because they are costly; lean.go, with parts that stay text
//	respond.go   writing responses; projection.go, subresources that return another kind than the object's;
//	             converted.go, with conversion webhooks
//	continue.go  continue tokens of lists; deprecation.go, warnings about deprecated versions;
//	             future.go, the error for future revisions
//	shard.go     lists and watches of a shard of a collection
//	managers.go  field managers, one for each type, version and subresource
//	joined.go    lists joined of compressed runs; compress.go, gzip of other responses
//	frames.go    writers of watch frames; websocket*.go, over WebSocket; watch_pace.go, many watches of one type;
//	             watch_steps.go, watch_events.go, the steps of a watch; watch_stall.go, clients that read nothing;
//	             watch_sequel.go, later.go, watches that outlive their handler
//	connect.go   subresources that are forwarded to a kubelet, a pod or a Service
//	audit.go     audit events; counts.go list_counts.go watch_counts.go, metrics
//	computed.go  types whose objects are computed for each request
package handlers
