package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/kubernetes/pkg/apis/flowcontrol"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	schedulingv1 "k8s.io/kubernetes/pkg/apis/scheduling/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fieldmanager"
)

// The managers of the fields of flow control, by the names of kube-apiserver's own controllers.
const (
	flowProducer = "api-priority-and-fairness-config-producer-v1"
	flowConsumer = "api-priority-and-fairness-config-consumer-v1"
)

// bootstrapPriorities makes what kube-apiserver makes at its first start for requests and pods to be ranked by: the
// configuration of priority and fairness (KEP-1040), and the PriorityClasses of the system. One that a user has taken
// over, by its annotation, is left alone, and so is a PriorityClass that exists.
//
// They are written all at once, so that the store puts them into few transactions. What is as it should be is not
// touched, so that a later start costs nothing.
func (s *Server) bootstrapPriorities(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, f := range []func(context.Context, *errgroup.Group) error{s.bootstrapLevels, s.bootstrapFlows, s.bootstrapClasses} {
		if err := f(ctx, group); err != nil {
			return errors.Join(err, group.Wait())
		}
	}
	return group.Wait()
}

func (s *Server) bootstrapLevels(ctx context.Context, group *errgroup.Group) error {
	t, ok := s.Registry.Catalog().Type("prioritylevelconfigurations.flowcontrol.apiserver.k8s.io")
	if !ok {
		return nil
	}
	manager, err := t.ServerManager("")
	if err != nil {
		return err
	}
	for _, want := range slices.Concat(bootstrap.MandatoryPriorityLevelConfigurations, bootstrap.SuggestedPriorityLevelConfigurations) {
		if is, ok := s.stored(ctx, t, want.Name).(*flowcontrolv1.PriorityLevelConfiguration); ok &&
			(!follows(&is.ObjectMeta) || apiequality.Semantic.DeepEqual(is.Spec, want.Spec)) {
			continue
		}
		group.Go(func() error {
			return s.ensureBy(ctx, t, manager, flowProducer, "", want.Name, func(_ bool, obj runtime.Object) error {
				level := obj.(*flowcontrol.PriorityLevelConfiguration)
				hub, err := t.ToHub(want.DeepCopy())
				if err == nil {
					level.Spec, level.Annotations = hub.(*flowcontrol.PriorityLevelConfiguration).Spec, want.Annotations
				}
				return err
			})
		})
	}
	return nil
}

func (s *Server) bootstrapFlows(ctx context.Context, group *errgroup.Group) error {
	t, ok := s.Registry.Catalog().Type("flowschemas.flowcontrol.apiserver.k8s.io")
	if !ok {
		return nil
	}
	manager, err := t.ServerManager("")
	if err != nil {
		return err
	}
	consumer, err := t.ServerManager("status")
	if err != nil {
		return err
	}
	for _, want := range slices.Concat(bootstrap.MandatoryFlowSchemas, bootstrap.SuggestedFlowSchemas) {
		if is, ok := s.stored(ctx, t, want.Name).(*flowcontrolv1.FlowSchema); ok &&
			(!follows(&is.ObjectMeta) || apiequality.Semantic.DeepEqual(is.Spec, want.Spec) && len(is.Status.Conditions) > 0) {
			continue
		}
		group.Go(func() error {
			err := s.ensureBy(ctx, t, manager, flowProducer, "", want.Name, func(_ bool, obj runtime.Object) error {
				schema := obj.(*flowcontrol.FlowSchema)
				hub, err := t.ToHub(want.DeepCopy())
				if err == nil {
					schema.Spec, schema.Annotations = hub.(*flowcontrol.FlowSchema).Spec, want.Annotations
				}
				return err
			})
			if err != nil {
				return err
			}
			return s.markFlow(ctx, t, consumer, want.Name)
		})
	}
	return nil
}

// markFlow says in the status of a FlowSchema that comes with the server that its priority level exists, as that comes
// with the server too. One that has a status is left alone.
func (s *Server) markFlow(ctx context.Context, t *resources.Type, manager *fieldmanager.Manager, name string) error {
	r := resources.UpdateRequest{Type: t, Name: name, Strategy: t.Subresources["status"].UpdateStrategy}
	r.Change = func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
		schema := existing.(*flowcontrol.FlowSchema)
		if len(schema.Status.Conditions) > 0 {
			return schema.DeepCopy(), nil
		}
		patch := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": t.StorageVersion.String(), "kind": t.Kind, "metadata": map[string]any{"name": name},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": string(flowcontrolv1.FlowSchemaConditionDangling), "status": string(metav1.ConditionFalse), "reason": "Found",
				"message": fmt.Sprintf("This FlowSchema references the PriorityLevelConfiguration object named %q and it exists",
					schema.Spec.PriorityLevelConfiguration.Name),
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			}}},
		}}
		return manager.Apply(existing, patch, flowConsumer, true)
	}
	_, _, err := r.Apply(resources.WithRequest(ctx, t, "update", "", name), s.Store)
	return err
}

func (s *Server) bootstrapClasses(ctx context.Context, group *errgroup.Group) error {
	t, ok := s.Registry.Catalog().Type("priorityclasses.scheduling.k8s.io")
	if !ok {
		return nil
	}
	for _, want := range schedulingv1.SystemPriorityClasses() {
		if s.stored(ctx, t, want.Name) != nil {
			continue
		}
		group.Go(func() error {
			return s.ensure(ctx, t, "", want.Name, func(exists bool, obj runtime.Object) error {
				if class := obj.(*scheduling.PriorityClass); !exists {
					class.Value, class.Description = want.Value, want.Description
				}
				return nil
			})
		})
	}
	return nil
}

// stored returns an object in the version it is stored in, nil when there is none to be read: whoever then makes it gets
// to know why.
func (s *Server) stored(ctx context.Context, t *resources.Type, name string) runtime.Object {
	o, err := s.Store.Get(ctx, t.KeyOf("", name), resources.At{Match: resources.MostRecent})
	if err != nil {
		return nil
	}
	obj, err := t.DecodeStored(o)
	if err != nil {
		return nil
	}
	return obj
}

// follows tells whether an object is to follow the configuration that comes with the server.
func follows(m *metav1.ObjectMeta) bool {
	return m.Annotations[flowcontrolv1.AutoUpdateAnnotationKey] == "true"
}
