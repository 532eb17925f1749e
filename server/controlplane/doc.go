// Package controlplane is what a server does without being asked: it makes the objects that are there from the start, and
// keeps them right. It follows the store and writes through resources.Pipeline, as system:apiserver; it knows nothing of
// HTTP, and the server that answers requests knows it by two calls (Front). Only cmd imports it.
//
//	controlplane.go       what it works on, and what it tells the server
//	keep.go               chores: what is done when objects change, which package follow tells of
//	keep_served.go        chores of types that come, are replaced and go
//	bootstrap*.go         the objects that exist from the start
//	configmaps.go         ConfigMaps by which others know what this server does
//	apiservices.go        an APIService for each version that is served
//	flow_*.go             the configuration of priority and fairness; conditions.go, how conditions are written
//	keep_services.go      the Service kubernetes, with members.go and endpoints.go: who serves, and where
//	repair_*.go           IPAddresses that no longer agree with the Services; reporter.go: the Events about them
//	controllers/          the controllers, which work on one server at a time
package controlplane
