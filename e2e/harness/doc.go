// Package harness builds and runs servers of the Kubernetes API as child processes: the Rowlock binary that users run, and kube-apiserver over etcd
// or kine, its peers. The end-to-end tests and the benchmark start servers only here.
//
//	build.go              binaries, by the Makefile's targets
//	server.go             a running server: its address, credentials, process ids; stop, kill, ready
//	rowlock.go            starts Rowlock
//	kubeapiserver.go      starts kube-apiserver over etcd or kine
//	controllermanager.go  starts kube-controller-manager on top of Rowlock
//	published.go          definitions of custom resources that projects have published
//
// Servers listen on free ports of 127.0.0.1 and keep everything in the directory they are given.
package harness
