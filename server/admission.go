package server

import (
	apiadmission "k8s.io/apiserver/pkg/admission"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/admission"
)

// newAdmission returns the chain of admission plugins.
func (s *Server) newAdmission() (apiadmission.Interface, error) {
	client, err := s.Client(resources.APIServer.Info, "kube-apiserver")
	if err != nil {
		return nil, err
	}
	return admission.New(admission.Config{Store: s.Store, Client: client, Features: s.Features,
		Enable: s.EnableAdmissionPlugins, Disable: s.DisableAdmissionPlugins, Stop: s.ended})
}
