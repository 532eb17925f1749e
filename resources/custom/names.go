package custom

import (
	"fmt"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/util/webhook"
)

// names are the names in use in a group.
type names struct {
	resources, kinds sets.Set[string]
}

// namesIn are the names in a group: of definitions, and of types that are served without them.
func (d *Definitions) namesIn(group string) names {
	n := names{sets.New[string](), sets.New[string]()}
	if b, ok := d.builtinNames[group]; ok {
		n = names{b.resources.Clone(), b.kinds.Clone()}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, def := range d.byName {
		if def.group == group {
			a := &def.accepted
			n.add(a.Plural, a.Singular, a.ShortNames, a.Kind, a.ListKind)
		}
	}
	return n
}

func (n names) add(plural, singular string, short []string, kind, listKind string) {
	n.resources.Insert(plural, singular)
	n.resources.Insert(short...)
	n.kinds.Insert(kind, listKind)
}

// accept gives a definition the names that it asks for, if they are free or its own, and sets the conditions NamesAccepted
// and Established. It follows kube-apiserver's naming and establishing controllers.
func (n names) accept(crd *apiextensions.CustomResourceDefinition) {
	if !apiequality.Semantic.DeepEqual(crd.Spec.Names, crd.Status.AcceptedNames) {
		reason, message := n.give(&crd.Spec.Names, &crd.Status.AcceptedNames)
		status := apiextensions.ConditionFalse
		if reason == "" {
			status, reason, message = apiextensions.ConditionTrue, "NoConflicts", "no conflicts found"
		}
		setCondition(crd, apiextensions.NamesAccepted, status, reason, message)
		if apiextensions.FindCRDCondition(crd, apiextensions.Established) == nil && status == apiextensions.ConditionFalse {
			setCondition(crd, apiextensions.Established, apiextensions.ConditionFalse, "NotAccepted", "not all names are accepted")
		}
	}
	if apiextensions.IsCRDConditionTrue(crd, apiextensions.NamesAccepted) && !apiextensions.IsCRDConditionTrue(crd, apiextensions.Established) {
		establish(crd)
	}
}

// establish makes a definition with accepted names served, unless its conversion webhook cannot be called.
func establish(crd *apiextensions.CustomResourceDefinition) {
	if c := crd.Spec.Conversion; c != nil && c.WebhookClientConfig != nil && len(webhook.ValidateCABundle(nil, c.WebhookClientConfig.CABundle)) > 0 {
		setCondition(crd, apiextensions.Established, apiextensions.ConditionFalse, "InvalidCABundle", "The conversion webhook CABundle is invalid")
		return
	}
	setCondition(crd, apiextensions.Established, apiextensions.ConditionTrue, "InitialNamesAccepted", "the initial names have been accepted")
}

// give returns the reason why names were not given; of several reasons the last one.
func (n names) give(wanted, accepted *apiextensions.CustomResourceDefinitionNames) (reason, message string) {
	take := func(wanted string, accepted *string, used sets.Set[string], conflict string) {
		if err := free(wanted, *accepted, used); err != nil {
			reason, message = conflict, err.Error()
			return
		}
		*accepted = wanted
	}
	take(wanted.Plural, &accepted.Plural, n.resources, "PluralConflict")
	take(wanted.Singular, &accepted.Singular, n.resources, "SingularConflict")
	var errs []error
	for _, name := range wanted.ShortNames {
		if err := free(name, "", n.resources); err != nil && !slices.Contains(accepted.ShortNames, name) {
			errs = append(errs, err)
		}
	}
	if err := utilerrors.NewAggregate(errs); err != nil {
		reason, message = "ShortNamesConflict", err.Error()
	} else {
		accepted.ShortNames = wanted.ShortNames
	}
	take(wanted.Kind, &accepted.Kind, n.kinds, "KindConflict")
	take(wanted.ListKind, &accepted.ListKind, n.kinds, "ListKindConflict")
	accepted.Categories = wanted.Categories
	return reason, message
}

func free(wanted, accepted string, used sets.Set[string]) error {
	if wanted == accepted || !used.Has(wanted) {
		return nil
	}
	return fmt.Errorf("%q is already in use", wanted)
}

func setCondition(crd *apiextensions.CustomResourceDefinition, typ apiextensions.CustomResourceDefinitionConditionType,
	status apiextensions.ConditionStatus, reason, message string) {
	apiextensions.SetCRDCondition(crd, apiextensions.CustomResourceDefinitionCondition{Type: typ, Status: status, Reason: reason, Message: message})
}

// approve sets the condition of the approval for a definition in one of the community's groups (KEP-1111).
func approve(crd *apiextensions.CustomResourceDefinition) {
	if !apihelpers.IsProtectedCommunityGroup(crd.Spec.Group) {
		return
	}
	status, reason := apiextensions.ConditionFalse, ""
	state, message := apihelpers.GetAPIApprovalState(crd.Annotations)
	switch state {
	case apihelpers.APIApprovalInvalid:
		reason = "InvalidAnnotation"
	case apihelpers.APIApprovalMissing:
		reason = "MissingAnnotation"
	case apihelpers.APIApproved:
		status, reason = apiextensions.ConditionTrue, "ApprovedAnnotation"
	case apihelpers.APIApprovalBypassed:
		reason = "UnapprovedAnnotation"
	default:
		status, reason = apiextensions.ConditionUnknown, "UnknownAnnotation"
	}
	const conformant = apiextensions.CustomResourceDefinitionConditionType(apiextensionsv1.KubernetesAPIApprovalPolicyConformant)
	if c := apiextensions.FindCRDCondition(crd, conformant); c == nil || c.Status != status || c.Reason != reason || c.Message != message {
		setCondition(crd, conformant, status, reason, message)
	}
}
