package server

import (
	apiadmission "k8s.io/apiserver/pkg/admission"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/admission"
)

// newAdmission returns the chain of admission plugins.
func (s *Server) newAdmission() (apiadmission.Interface, error) {
	client, err := s.Client(resources.APIServer.Info, "kube-apiserver")
	if err != nil {
		return nil, err
	}
	s.client = client
	return admission.New(admission.Config{Store: s.Store, Client: client, Features: s.Features,
		Enable: s.EnableAdmissionPlugins, Disable: s.DisableAdmissionPlugins, Stop: s.ended})
}

// Secrets returns what reads and writes the Secrets of a namespace through the server, as the server itself.
func (s *Server) Secrets(namespace string) corev1.SecretInterface {
	return s.client.CoreV1().Secrets(namespace)
}
