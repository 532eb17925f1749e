package server

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"net/url"
	"os"
	"strings"

	apiadmission "k8s.io/apiserver/pkg/admission"
	utilproxy "k8s.io/apiserver/pkg/util/proxy"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/bounded"
)

// newAdmission returns the chain of admission plugins.
func (s *Server) newAdmission() (apiadmission.Interface, error) {
	client, err := s.Client(resources.APIServer.Info, "kube-apiserver")
	if err != nil {
		return nil, err
	}
	s.client = client
	times, err := newAdmissionTimes(s.Metrics)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	chain, err := admission.New(admission.Config{Store: s.Store, Authorizer: s.Authorizer, Registry: s.Registry, Client: client, Features: s.Features,
		Enable: s.EnableAdmissionPlugins, Disable: s.DisableAdmissionPlugins, Configuration: s.AdmissionConfiguration, Identity: Identity(),
		Services: services{behind.New(s.Store, s.Registry), s.RouteToEndpoints}, Loopback: loopback{s, resources.APIServer.Info, "kube-apiserver-admission", bounded.MostBytes},
		Observe: times.plugin, Stop: s.ended})
	if err != nil {
		s.end() // some plugins have begun
		return nil, err
	}
	return times.chain(chain), nil
}

// Identity is how kube-apiserver names itself among the servers of a cluster. Metrics have a hash of it.
func Identity() string {
	hostname, _ := os.Hostname() // a machine without a name has an identity all the same
	hash := sha256.Sum256([]byte(hostname))
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
}

// services says where a Service is reached, as kube-apiserver does.
type services struct {
	*behind.Lister
	toEndpoints bool
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if behind.Self(namespace, name, int(port)) { // is asked within the process, whether its Service is there or not
		return &url.URL{Scheme: "https", Host: name + "." + namespace + ".svc"}, nil
	}
	if s.toEndpoints {
		return utilproxy.ResolveEndpoint(s, s, namespace, name, port)
	}
	return utilproxy.ResolveCluster(s, namespace, name, port)
}

// Secrets returns what reads and writes the Secrets of a namespace through the server, as the server itself.
func (s *Server) Secrets(namespace string) corev1.SecretInterface {
	return s.client.CoreV1().Secrets(namespace)
}
