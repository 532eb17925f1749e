package custom

import (
	"fmt"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kubernetes/pkg/apis/autoscaling"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/rowlock/rowlock/resources"
)

// unset marks a missing number of replicas while an object is being changed.
const unset = -1 << 31

// scaleKind is the kind at the subresource scale.
var scaleKind = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// newScale makes the subresource scale of a type.
func newScale(t *resources.Type, paths *apiextensionsv1.CustomResourceSubresourceScale, replicas managedfields.ResourcePathMappings) *resources.Subresource {
	s := &scale{spec: steps(paths.SpecReplicasPath), status: steps(paths.StatusReplicasPath), specPath: paths.SpecReplicasPath, replicas: replicas}
	if paths.LabelSelectorPath != nil && *paths.LabelSelectorPath != "" {
		s.selector = steps(*paths.LabelSelectorPath)
	}
	return &resources.Subresource{Name: "scale", Kind: scaleKind, Verbs: []string{"get", "patch", "update"},
		UpdateStrategy: t.UpdateStrategy, Projection: s, Table: scaleTable(paths)}
}

// replicasPaths is the path of the wanted replicas in each version, for field ownership.
func (d *definition) replicasPaths(crd *apiextensionsv1.CustomResourceDefinition) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, v := range crd.Spec.Versions {
		var path fieldpath.Path
		if v.Subresources != nil && v.Subresources.Scale != nil {
			for _, step := range steps(v.Subresources.Scale.SpecReplicasPath) {
				path = append(path, fieldpath.PathElement{FieldName: &step})
			}
		}
		paths[d.gv(v.Name).String()] = path
	}
	return paths
}

// steps are the fields of a path such as .spec.replicas.
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// scale shows a custom resource as a Scale.
type scale struct {
	spec, status, selector []string
	specPath               string
	replicas               managedfields.ResourcePathMappings
}

var _ resources.Changeable = (*scale)(nil)

// New makes an empty Scale.
func (s *scale) New() runtime.Object { return &autoscaling.Scale{} }

// ReplicasPaths is the path of spec.replicas in the versions of the parent.
func (s *scale) ReplicasPaths() managedfields.ResourcePathMappings { return s.replicas }

// FromParent makes the Scale of an object. It fails where the object has no wanted number of replicas.
func (s *scale) FromParent(parent runtime.Object) (runtime.Object, error) {
	shown, found, err := s.of(parent)
	if err == nil && !found {
		err = apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", s.specPath))
	}
	return shown, err
}

// ToChange makes the Scale of an object that is to be changed; its replicas may be missing.
func (s *scale) ToChange(parent runtime.Object) (runtime.Object, error) {
	shown, found, err := s.of(parent)
	if err == nil && !found {
		shown.Spec.Replicas = unset
	}
	return shown, err
}

// ForAdmission makes the Scale of an object; replicas that are missing are zero.
func (s *scale) ForAdmission(parent runtime.Object) (runtime.Object, error) {
	shown, _, err := s.of(parent)
	return shown, err
}

// Changed makes the Scale that answers a change. Only then the replicas that a conversion webhook has returned are known: the change is
// stored, so missing replicas are zero.
func (s *scale) Changed(parent runtime.Object) (runtime.Object, error) {
	shown, _, err := s.of(parent)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return shown, nil
}

func (s *scale) of(parent runtime.Object) (shown *autoscaling.Scale, found bool, err error) {
	u, ok := parent.(*unstructured.Unstructured)
	if !ok {
		return nil, false, fmt.Errorf("%T has no scale", parent)
	}
	wanted, found, err := unstructured.NestedInt64(u.Object, s.spec...)
	if err != nil {
		return nil, false, err
	}
	running, _, err := unstructured.NestedInt64(u.Object, s.status...)
	if err != nil {
		return nil, false, err
	}
	selector := ""
	if len(s.selector) > 0 {
		if selector, _, err = unstructured.NestedString(u.Object, s.selector...); err != nil {
			return nil, false, err
		}
	}
	return &autoscaling.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: u.GetName(), Namespace: u.GetNamespace(), UID: u.GetUID(), ResourceVersion: u.GetResourceVersion(),
			CreationTimestamp: u.GetCreationTimestamp()},
		Spec:   autoscaling.ScaleSpec{Replicas: int32(wanted)},
		Status: autoscaling.ScaleStatus{Replicas: int32(running), Selector: selector},
	}, found, nil
}

// ToParent writes the wanted replicas of a Scale, and its resourceVersion if it has one, into an object. It fails with a BadRequest if
// the Scale has no replicas.
func (s *scale) ToParent(projected, parent runtime.Object) error {
	changed, ok := projected.(*autoscaling.Scale)
	if !ok {
		return apierrors.NewBadRequest(fmt.Sprintf("wrong object passed to Scale update: %v", projected))
	}
	if changed.Spec.Replicas == unset {
		return apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", s.specPath))
	}
	u, ok := parent.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("%T has no scale", parent)
	}
	if changed.ResourceVersion != "" {
		u.SetResourceVersion(changed.ResourceVersion)
	}
	return unstructured.SetNestedField(u.Object, int64(changed.Spec.Replicas), s.spec...)
}
