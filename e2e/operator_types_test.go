package e2e

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/conversion"
)

// The kinds of testdata/operator as the author of a controller writes them: v1 is stored, and v1beta1 has the prefix and the name
// of a ship in one text.

type shipStatus struct {
	Docked             bool  `json:"docked,omitempty"`
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

type shipTitle struct {
	Name   string `json:"name"`
	Prefix string `json:"prefix,omitempty"`
}

type ship struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Title shipTitle `json:"title"`
	} `json:"spec"`
	Status shipStatus `json:"status,omitempty"`
}

func (*ship) Hub() {}

func (s *ship) DeepCopyObject() runtime.Object {
	out := *s
	out.ObjectMeta = *s.ObjectMeta.DeepCopy()
	return &out
}

type shipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []ship `json:"items"`
}

func (l *shipList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]ship, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*ship)
	}
	return &out
}

type oldShip struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Title string `json:"title"`
	} `json:"spec"`
	Status shipStatus `json:"status,omitempty"`
}

func (o *oldShip) DeepCopyObject() runtime.Object {
	out := *o
	out.ObjectMeta = *o.ObjectMeta.DeepCopy()
	return &out
}

func (o *oldShip) ConvertTo(hub conversion.Hub) error {
	s := hub.(*ship)
	s.ObjectMeta, s.Status = o.ObjectMeta, o.Status
	s.Spec.Title.Prefix, s.Spec.Title.Name, _ = strings.Cut(o.Spec.Title, " ")
	return nil
}

func (o *oldShip) ConvertFrom(hub conversion.Hub) error {
	s := hub.(*ship)
	o.ObjectMeta, o.Status = s.ObjectMeta, s.Status
	o.Spec.Title = s.Spec.Title.Prefix + " " + s.Spec.Title.Name
	return nil
}

type oldShipList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []oldShip `json:"items"`
}

func (l *oldShipList) DeepCopyObject() runtime.Object {
	out := *l
	out.Items = make([]oldShip, len(l.Items))
	for i := range l.Items {
		out.Items[i] = *l.Items[i].DeepCopyObject().(*oldShip)
	}
	return &out
}

// shipScheme knows the kinds of testdata/operator.
func shipScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	v1, v1beta1 := schema.GroupVersion{Group: "harbour.example.com", Version: "v1"}, schema.GroupVersion{Group: "harbour.example.com", Version: "v1beta1"}
	scheme.AddKnownTypeWithName(v1.WithKind("Ship"), &ship{})
	scheme.AddKnownTypeWithName(v1.WithKind("ShipList"), &shipList{})
	scheme.AddKnownTypeWithName(v1beta1.WithKind("Ship"), &oldShip{})
	scheme.AddKnownTypeWithName(v1beta1.WithKind("ShipList"), &oldShipList{})
	metav1.AddToGroupVersion(scheme, v1)
	metav1.AddToGroupVersion(scheme, v1beta1)
	return scheme
}
