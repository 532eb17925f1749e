package main

import (
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// withoutTaken removes the refused values from a Service: addresses and node ports that another Service has by now, or that are outside this
// server's ranges. The server then allocates others, or keeps those of the live Service. ok is false when the refusal has another reason. live is
// nil when there is no live Service.
func withoutTaken(service, live *unstructured.Unstructured, refusal error) (ok bool) {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(refusal) || !errors.As(refusal, &status) || status.Status().Details == nil {
		return false
	}
	spec, _, _ := unstructured.NestedFieldNoCopy(service.Object, "spec")
	fields, _ := spec.(map[string]any)
	remove := func(from map[string]any, names ...string) {
		for _, name := range names {
			_, has := from[name]
			delete(from, name)
			ok = ok || has
		}
	}
	ports, _ := fields["ports"].([]any)
	for _, cause := range status.Status().Details.Causes {
		at := -1
		switch _, err := fmt.Sscanf(cause.Field, "spec.ports[%d].nodePort", &at); {
		case err == nil && at >= 0 && at < len(ports):
			port, _ := ports[at].(map[string]any)
			remove(port, "nodePort")
		case strings.HasPrefix(cause.Field, "spec.clusterIP") && !isHeadless(service) && !isHeadless(live):
			remove(fields, "clusterIP", "clusterIPs")
		case cause.Field == "spec.healthCheckNodePort":
			remove(fields, "healthCheckNodePort")
		default:
			return false
		}
	}
	return ok
}

// isHeadless tells whether a Service is headless: then it has no address on purpose, and a refusal is not about a taken one.
func isHeadless(service *unstructured.Unstructured) bool {
	if service == nil {
		return false
	}
	address, _, _ := unstructured.NestedString(service.Object, "spec", "clusterIP")
	return address == "None"
}
