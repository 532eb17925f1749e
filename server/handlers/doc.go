// Package handlers answers the verbs of the API for every resource type: one file a verb.
//
//	handlers.go  what all verbs share; the table from verb to handler
//	request.go   one request on its way: its type, subresource, options, namespace
//	get.go list.go watch.go create.go update.go patch*.go delete.go deletecollection.go
//	body.go      reading and decoding what clients send
//	respond.go   writing what the codec made
//	managers.go  field managers, one for each type, version and subresource
package handlers
