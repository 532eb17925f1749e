package builtin

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

func eventsGroup(events *resources.Type) resources.GroupSpec {
	return single(schema.GroupVersion{Group: "events.k8s.io", Version: "v1"}, events)
}
