package handlers_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"
)

// Credentials and identity headers are not forwarded: a kubelet, a pod or a Service could use them.
func TestCredentialsAreNotPassedOn(t *testing.T) {
	a := newAPI(t)
	passed := make(chan http.Header, 1)
	a.startKubelet(func(w http.ResponseWriter, r *http.Request) {
		passed <- r.Header
		http.Error(w, "no", http.StatusForbidden)
	})
	conn, err := tls.Dial("tcp", a.listen().Listener.Addr().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "POST /api/v1/namespaces/test/pods/p/exec?command=ls&stdout=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n")
	secret := []string{"Authorization", "Impersonate-User", "Impersonate-Uid", "Impersonate-Group", "Impersonate-Extra-Scopes",
		"X-Remote-User", "X-Remote-Uid", "X-Remote-Group", "X-Remote-Extra-Scopes",
		"X-Front-User", "X-Front-Extra-Scopes"} // configured by newServer
	for _, name := range secret {
		fmt.Fprintf(conn, "%s: secret\r\n", name)
	}
	fmt.Fprint(conn, "X-Other: passed on\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		t.Fatal(response.Status)
	}
	header := <-passed
	for _, name := range secret {
		if values := header.Values(name); values != nil {
			t.Errorf("%s: %q", name, values)
		}
	}
	if header.Get("X-Other") == "" {
		t.Error("other headers are lost")
	}
}
