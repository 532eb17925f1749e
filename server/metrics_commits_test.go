package server_test

import "testing"

// Writes are counted by operation and type, under kube-apiserver's names for requests to etcd.
func TestCommitsAreCounted(t *testing.T) {
	send, store := onStalling(t, false)
	send("POST", "/api/v1/namespaces", team)
	send("POST", "/api/v1/namespaces", team) // it exists
	send("PUT", "/api/v1/namespaces/team", team)
	store.fails.Store(true)
	send("PUT", "/api/v1/namespaces/team", team)
	body := send("GET", "/metrics", "")
	for line, n := range map[string]string{
		`etcd_requests_total{group="",operation="create",resource="namespaces"} `:                 "2",
		`etcd_request_errors_total{group="",operation="create",resource="namespaces"} `:           "0",
		`etcd_request_duration_seconds_count{group="",operation="create",resource="namespaces"} `: "2",
		`etcd_requests_total{group="",operation="update",resource="namespaces"} `:                 "2",
		`etcd_request_errors_total{group="",operation="update",resource="namespaces"} `:           "1",
	} {
		wantLine(t, body, line+n)
	}
}
