package status

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
)

// unreadable is the error when an object cannot be read or written, in kube-apiserver's words. With the gate AllowUnsafeMalformedObjectDeletion
// they name the objects.
func unreadable(e *resources.TransformError, resource schema.GroupResource, verb string) error {
	switch {
	case e.Undecodable && (e.Revision == 0 || !malformedMayGo()): // a dry run stores nothing
		return e.Err
	case e.Revision == 0, !malformedMayGo():
		return apierrors.NewInternalError(e)
	case e.Among, e.Undecodable && verb == "list":
		return unreadableAmong(e, resource)
	case e.Deleted:
		return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
			Reason: metav1.StatusReasonStoreReadError, Message: "saw a DELETED event, but object data is corrupt - " + corrupt(e)}}
	case verb == "get", verb == "delete", e.DryRun:
		return apierrors.NewInternalError(errors.New(corruptObject(e, strings.TrimPrefix(e.Key.InEtcd(), "/registry"))))
	}
	if e.Undecodable {
		return errors.New(corrupt(e))
	}
	return apierrors.NewInternalError(errors.New(corrupt(e)))
}

func malformedMayGo() bool {
	return utilfeature.DefaultFeatureGate.Enabled(features.AllowUnsafeMalformedObjectDeletion)
}

// Initializing is the error for requests that kube-apiserver serves from its watch cache, which does not initialize while objects cannot be
// converted. Other errors pass unchanged.
func Initializing(err error, resource schema.GroupResource) error {
	var e *resources.TransformError
	if !errors.As(err, &e) || !e.Undecodable {
		return err
	}
	return apierrors.NewTooManyRequests("storage is (re)initializing: failed to list <unspecified>: "+unreadable(e, resource, "list").Error(), 1)
}

// unreadableAmong is the error for a list, with each of the objects.
func unreadableAmong(e *resources.TransformError, resource schema.GroupResource) error {
	message := fmt.Sprintf("failed to read one or more %s from the storage: %s", resource, corruptObject(e, e.Key.InEtcd()))
	all := append([]*resources.TransformError{e}, e.Others...)
	if len(all) > 1 {
		message = fmt.Sprintf("%s (and %d more)", message, len(all)-1)
	}
	causes := make([]metav1.StatusCause, 0, len(all)+1)
	for _, one := range all {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: one.Key.InEtcd(),
			Message: corruptObject(one, one.Key.InEtcd())})
	}
	if len(all) >= resources.UnreadableMost {
		causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany, Message: "too many errors, the list is truncated"})
	}
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Reason: metav1.StatusReasonStoreReadError, Message: message,
		Details: &metav1.StatusDetails{Group: resource.Group, Kind: resource.Resource, Name: "list", Causes: causes}}}
}

// corruptObject is kube-apiserver's error for an object at a key.
func corruptObject(e *resources.TransformError, key string) string {
	return fmt.Sprintf("StorageError: corrupt object, Code: 7, Key: %s, ResourceVersion: 0, AdditionalErrorMsg: %s", key, corrupt(e))
}

// corrupt describes the defect of an object.
func corrupt(e *resources.TransformError) string {
	if e.Undecodable {
		return fmt.Sprintf("object not decodable revision=%d: %v", e.Revision, e.Err)
	}
	return fmt.Sprintf("data from the storage is not transformable revision=0: %v", e.Err)
}
