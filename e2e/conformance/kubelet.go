package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/util/cert"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	corev1 "k8s.io/api/core/v1"
)

// serve serves the logs of containers, and runs commands in them, at the address of the node, as a kubelet does, but for everybody. It returns its port.
func (n *node) serve(ctx context.Context) (int32, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKey(nodeName, nil, nil)
	if err != nil {
		return 0, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return 0, err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort(podNetwork.Addr().String(), "0"))
	if err != nil {
		return 0, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /containerLogs/{namespace}/{pod}/{container}", func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, n.root(r)+".log") })
	mux.HandleFunc("POST /exec/{namespace}/{pod}/{container}", n.exec)
	server := &http.Server{Handler: mux, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}}
	context.AfterFunc(ctx, func() { server.Close() })
	n.running.Go(func() { _ = server.ServeTLS(listener, "", "") })
	return int32(listener.Addr().(*net.TCPAddr).Port), nil
}

// root is the root directory of the container that a request names.
func (n *node) root(r *http.Request) string {
	return filepath.Join(n.dir, r.PathValue("namespace"), r.PathValue("pod"), r.PathValue("container"))
}

// exec runs a command in a container, without input, by the protocol between kube-apiserver and kubelets.
func (n *node) exec(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	wanted := []string{corev1.StreamTypeError}
	for name, stream := range map[string]string{corev1.ExecStdoutParam: corev1.StreamTypeStdout, corev1.ExecStderrParam: corev1.StreamTypeStderr} {
		if query.Get(name) != "" {
			wanted = append(wanted, stream)
		}
	}
	if _, err := httpstream.Handshake(r, w, []string{remotecommand.StreamProtocolV4Name}); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	opened := make(chan httpstream.Stream)
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
		go func() { // until it is received or the connection is closed
			select {
			case opened <- stream:
			case <-r.Context().Done():
			}
		}()
		return nil
	})
	if connection == nil {
		return // the client knows why
	}
	defer connection.Close()
	streams := map[string]httpstream.Stream{}
	for range wanted {
		select {
		case stream := <-opened:
			streams[stream.Headers().Get(corev1.StreamType)] = stream
		case <-connection.CloseChan():
			return
		}
	}
	cmd := containerCommand(r.Context(), n.root(r), true, nil, query[corev1.ExecCommandParam])
	if stdout := streams[corev1.StreamTypeStdout]; stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr := streams[corev1.StreamTypeStderr]; stderr != nil {
		cmd.Stderr = stderr
	}
	_ = json.NewEncoder(streams[corev1.StreamTypeError]).Encode(exitStatus(cmd.Run()))
	for _, stream := range streams {
		stream.Close()
	}
}

// exitStatus tells a client how its command has ended.
func exitStatus(err error) metav1.Status {
	if err == nil {
		return metav1.Status{Status: metav1.StatusSuccess}
	}
	status := metav1.Status{Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError, Message: err.Error()}
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		status.Reason = remotecommand.NonZeroExitCodeReason
		status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: remotecommand.ExitCodeCauseType, Message: fmt.Sprint(exit.ExitCode())}}}
	}
	return status
}
