package builtin

import (
	"context"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rowlock/rowlock/resources"
)

// scaled has the numbers that a Scale shows of an object.
type scaled struct {
	wanted   *int32 // spec.replicas
	running  int32  // status.replicas
	selector func() (labels.Selector, error)
}

// scalable adds the scale subresource to a type. view finds the numbers in an object; versions are all versions that
// ever owned spec.replicas in metadata.managedFields.
func scalable[P runtime.Object](view func(P) scaled, versions ...string) option {
	return func(t *resources.Type) {
		paths := managedfields.ResourcePathMappings{}
		for _, v := range versions {
			gv := schema.GroupVersion{Group: t.Group, Version: v}
			paths[gv.String()] = fieldpath.MakePathOrDie("spec", "replicas")
		}
		with(&resources.Subresource{
			Name:           "scale",
			Kind:           autoscalingv1.SchemeGroupVersion.WithKind("Scale"),
			Verbs:          []string{"get", "patch", "update"},
			UpdateStrategy: t.UpdateStrategy,
			ResetFields:    nil,
			Projection:     scale[P]{resource: t.GroupResource, view: view, paths: paths},
		})(t)
	}
}

// scale maps objects that count replicas to autoscaling/v1 Scale and back.
type scale[P runtime.Object] struct {
	resource schema.GroupResource
	view     func(P) scaled
	paths    managedfields.ResourcePathMappings
}

// New makes an empty Scale.
func (s scale[P]) New() runtime.Object { return &autoscaling.Scale{} }

// ReplicasPaths is the path of spec.replicas in the versions of the parent.
func (s scale[P]) ReplicasPaths() managedfields.ResourcePathMappings { return s.paths }

// FromParent makes the Scale of an object. It fails with a BadRequest when the object's selector is invalid.
func (s scale[P]) FromParent(parent runtime.Object) (runtime.Object, error) {
	m, err := meta.Accessor(parent)
	if err != nil {
		return nil, err
	}
	v := s.view(parent.(P))
	selector, err := v.selector()
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return &autoscaling.Scale{
		ObjectMeta: metav1.ObjectMeta{
			Name: m.GetName(), Namespace: m.GetNamespace(), UID: m.GetUID(),
			ResourceVersion: m.GetResourceVersion(), CreationTimestamp: m.GetCreationTimestamp(),
		},
		Spec:   autoscaling.ScaleSpec{Replicas: *v.wanted},
		Status: autoscaling.ScaleStatus{Replicas: v.running, Selector: selector.String()},
	}, nil
}

// ToParent writes the wanted replicas and the resourceVersion (a precondition, when set) of a Scale into an object. It
// fails with Invalid for an invalid Scale, and with Conflict when the Scale has another UID.
func (s scale[P]) ToParent(projected, parent runtime.Object) error {
	m, err := meta.Accessor(parent)
	if err != nil {
		return err
	}
	new, ok := projected.(*autoscaling.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", projected))
	}
	old, err := s.FromParent(parent)
	if err != nil {
		return err
	}
	if errs := validation.ValidateScaleUpdate(scaleContext, new, old.(*autoscaling.Scale), Scheme, nil); len(errs) > 0 {
		return apierrors.NewInvalid(autoscaling.Kind("Scale"), m.GetName(), errs)
	}
	if new.UID != "" && new.UID != m.GetUID() {
		gr := schema.GroupResource{Group: s.resource.Group, Resource: s.resource.Resource + "/scale"}
		return apierrors.NewConflict(gr, m.GetName(),
			fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", new.UID, m.GetUID()))
	}
	*s.view(parent.(P)).wanted = new.Spec.Replicas
	m.SetResourceVersion(new.ResourceVersion)
	return nil
}

// scaleContext makes upstream's validation apply the rules of the version in which Scale is served, whatever the
// version of the parent.
var scaleContext = genericapirequest.WithRequestInfo(context.Background(),
	&genericapirequest.RequestInfo{APIGroup: "autoscaling", APIVersion: "v1", Subresource: "scale"})
