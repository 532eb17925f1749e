package resources

import (
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// withoutOwners runs rules on objects without a Go type while their managedFields are removed. Upstream's rules only validate the
// managedFields, which this function has done before, and make Go values of them by reflection each time. show restores them: an
// error may quote the object as it is when the error's text is made.
func withoutOwners(rules func(show func()) error, objects ...runtime.Object) error {
	if !fastpath.ManagedFields.On() {
		return rules(func() {})
	}
	var all []unowned
	show := func() {
		for _, one := range all {
			// The rules may have replaced metadata, or the whole object.
			if metadata, ok := one.object.Object["metadata"].(map[string]any); ok {
				metadata["managedFields"] = one.owners
			}
		}
	}
	defer show()
	for _, obj := range objects {
		u, ok := obj.(*unstructured.Unstructured)
		if !ok {
			break
		}
		metadata, _ := u.Object["metadata"].(map[string]any)
		owners, there := metadata["managedFields"]
		if !there {
			continue
		}
		if !validOwners(owners) {
			fastpath.ManagedFields.Fallback()
			continue
		}
		delete(metadata, "managedFields")
		all = append(all, unowned{u, owners})
	}
	return rules(show)
}

// unowned is an object whose managedFields are removed.
type unowned struct {
	object *unstructured.Unstructured
	owners any
}

// validOwners reports whether upstream's ValidateManagedFields finds nothing wrong with managedFields. False: it may, or they are
// out of the ordinary.
func validOwners(owners any) bool {
	list, ok := owners.([]any)
	for _, v := range list {
		entry, ok := v.(map[string]any)
		if !ok || entry["operation"] != string(metav1.ManagedFieldsOperationApply) && entry["operation"] != string(metav1.ManagedFieldsOperationUpdate) ||
			entry["fieldsType"] != "FieldsV1" {
			return false
		}
		manager, named := entry["manager"].(string)
		subresource, isText := entry["subresource"].(string)
		if _, there := entry["subresource"]; !named || there && !isText ||
			len(manager) > metav1validation.FieldManagerMaxLength || len(subresource) > metav1validation.MaxSubresourceNameLength {
			return false
		}
		for _, r := range manager {
			if !unicode.IsPrint(r) {
				return false
			}
		}
	}
	return ok
}
