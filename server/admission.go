package server

import (
	"fmt"
	"net/url"

	apiadmission "k8s.io/apiserver/pkg/admission"
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
	s.admissions = times
	s.services = services{behind.New(s.Store, s.Registry), s.ServiceRouting}
	chain, err := admission.New(admission.Config{Store: s.Store, Authorizer: s.Authorizer, Registry: s.Registry, Client: client, Features: s.Features,
		Enable: s.EnableAdmissionPlugins, Disable: s.DisableAdmissionPlugins, Configuration: s.AdmissionConfiguration, Identity: resources.ServerID(),
		Services: s.services, Loopback: loopback{s, resources.APIServer.Info, "kube-apiserver-admission", bounded.MostBytes},
		Observe: times.plugin, Stop: s.ended})
	if err != nil {
		s.end() // some plugins have started goroutines
		return nil, err
	}
	return times.chain(chain), nil
}

// services resolves the URL of a Service.
type services struct {
	*behind.Lister
	routing behind.Routing
}

// ResolveEndpoint implements webhook.ServiceResolver.
func (s services) ResolveEndpoint(namespace, name string, port int32) (*url.URL, error) {
	if behind.Self(namespace, name, int(port)) { // the server itself is called within the process, whether or not its Service exists
		return &url.URL{Scheme: "https", Host: name + "." + namespace + ".svc"}, nil
	}
	return s.Resolve(s.routing, namespace, name, port)
}

// Secrets returns a client that reads and writes the Secrets of a namespace through the server, as the server's own user.
func (s *Server) Secrets(namespace string) corev1.SecretInterface {
	return s.client.CoreV1().Secrets(namespace)
}
