// Package e2e drives the binary that users run with the clients that users have: kubectl, helm, client-go, controller-runtime and
// kube-controller-manager. Its tests know none of Rowlock's packages except the one that starts Postgres.
//
// All tests run twice, on SQLite and on Postgres; E2E_DATABASE=sqlite or =postgres is for one of them.
//
// The tests expect kube-apiserver's behaviour, and this can be verified: with E2E_KUBECONFIG set, those that need no server of their own run against
// that server instead.
//
//	main_test.go         one server for all tests that only need some server
//	compare_test.go      equality of two objects
//	kubectl_test.go      a day with kubectl
//	helm_test.go         releases, with helm
//	types_test.go        every built-in type: the verbs, selectors, tables, explain, apply
//	clients_test.go      client-go: typed, dynamic and metadata clients, informers
//	encodings_test.go    client-go's clients and informers in every encoding that they speak
//	manager_test.go      a controller written with controller-runtime
//	controllerruntime_test.go, envtest_test.go
//	                     controller-runtime's own tests, and Rowlock as the server of a controller's tests
//	h2spec_test.go       HTTP/2, by a suite of its own
//	badrequests_test.go  refusals, and their words
//	hostile_*_test.go    expensive requests, and streams that never end
//	sections_*_test.go   every section of the API concepts page, as tables of requests
//	endpoints_test.go    health, version, metrics, discovery, OpenAPI
//	lifecycle_test.go    start, restart, drain, refusal of a second process
//	cascade_test.go      deletion of owners and of namespaces
//	controllermanager_test.go
//	                     the same beside kube-controller-manager
//	crash_test.go        SIGKILL under load
//	servers_test.go      two servers on one database
//
// Package conformance, a program, runs upstream's own end-to-end tests; package integration runs upstream's integration tests.
//
// testdata/types has a valid object of every built-in type, testdata/sections the tables of requests by section of the page. `make compare` sends
// them to kube-apiserver as well, and compares the answers of both.
package e2e
