package controllers

import (
	"context"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	"k8s.io/apiserver/pkg/cel/openapi/resolver"
	admissionregistrationv1 "k8s.io/client-go/informers/admissionregistration/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/controller/validatingadmissionpolicystatus"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

const (
	policiesResource = "validatingadmissionpolicies.admissionregistration.k8s.io"
	// policyWorkers is kube-controller-manager's number.
	policyWorkers = 5
)

// newPolicyStatus returns the controller that reports type errors in a ValidatingAdmissionPolicy's expressions in its status. It uses
// the schemas that the server publishes.
func newPolicyStatus(c Config) controller {
	o := hosted.Options{Name: PolicyStatus, Follows: []hosted.Followed{{Resource: policiesResource, Needs: unchecked}}}
	return newHost(c, o, PolicyStatus, func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		checker := &validating.TypeChecker{SchemaResolver: &resolver.ClientDiscoveryResolver{Discovery: client.Discovery()},
			RestMapper: resources.Mapper{Registry: c.Registry}}
		s, err := validatingadmissionpolicystatus.NewController(admissionregistrationv1.New(informers, "", nil).ValidatingAdmissionPolicies(),
			client.AdmissionregistrationV1().ValidatingAdmissionPolicies(), checker)
		if err != nil {
			return err
		}
		s.Run(ctx, policyWorkers)
		return nil
	})
}

// unchecked tells whether a policy has changed since its types were checked.
func unchecked(o *resources.Object) bool {
	return gjson.GetBytes(o.Data, "metadata.generation").Int() > gjson.GetBytes(o.Data, "status.observedGeneration").Int()
}
