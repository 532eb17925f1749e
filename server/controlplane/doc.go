// Package controlplane does the work that a server does unasked: it creates the objects that exist from the start, and
// keeps them right. It follows the store and writes through resources.Pipeline as system:apiserver. It knows nothing of
// HTTP; it calls the part of the server that handles requests through Front (two methods). Only cmd imports it.
//
//	controlplane.go       its configuration, and the calls that it makes to the server
//	keep.go               chores: work that is done when objects change, as package follow reports
//	keep_served.go        chores for types that come, are replaced and go
//	bootstrap*.go         the objects that exist from the start
//	configmaps.go         ConfigMaps that tell other programs what this server does
//	apiservices.go        an APIService for each version that is served
//	flow_*.go             the configuration of priority and fairness; conditions.go: how conditions are written
//	keep_services.go      the Service kubernetes, with members.go and endpoints.go: which servers serve it, at which addresses
//	repair_*.go           IPAddresses and node ports that disagree with the Services; reporter.go: the Events about them
//	controllers/          the controllers, which run on one server at a time
package controlplane
