// Package status converts errors to the metav1.Status with which kube-apiserver would respond. It has the only table from errors, those of the
// Store and any others, to codes and reasons.
package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/resources"
)

// NotFound is the error for an invalid path below a served group.
func NotFound() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotFound,
		Reason: metav1.StatusReasonNotFound, Message: "the server could not find the requested resource", Details: &metav1.StatusDetails{}}}
}

// MethodNotAllowed is the error for a method that a path does not support.
func MethodNotAllowed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusMethodNotAllowed,
		Reason: metav1.StatusReasonMethodNotAllowed, Message: "the server does not allow this method on the requested resource",
		Details: &metav1.StatusDetails{}}}
}

// NoRepresentation is the error when the path offers no media type of Accept, whatever the parameters.
func NoRepresentation(available string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable, Details: &metav1.StatusDetails{},
		Message: "406: Not Acceptable\n\nAvailable representations: " + available}}
}

// NotAcceptable is the error when the path offers media types of Accept, but not with the requested parameters.
func NotAcceptable(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusNotAcceptable,
		Reason: metav1.StatusReasonNotAcceptable, Message: "only the following media types are accepted: " + accepted}}
}

// UnsupportedMediaType is the error for a body in an unknown encoding.
func UnsupportedMediaType(accepted string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason:  metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + accepted}}
}

// NotConsumed is the error when the path takes no body of the media type in Content-Type, such as a kind of patch. It is returned whether or not the
// request has a body.
func NotConsumed() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType,
		Reason: metav1.StatusReasonUnsupportedMediaType, Message: "415: Unsupported Media Type", Details: &metav1.StatusDetails{}}}
}

// Unauthorized is the error for a request without credentials, or with wrong ones.
func Unauthorized() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnauthorized,
		Reason: metav1.StatusReasonUnauthorized, Message: "Unauthorized"}}
}

// ForRequest adds the resource, name and verb for the Status to errors of the Store. Others pass unchanged.
func ForRequest(err error, resource schema.GroupResource, name, verb string) error {
	var (
		expired  *resources.ExpiredError
		future   *resources.FutureRevisionError
		expected *resources.ExpectationError
		secret   *resources.TransformError
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &expired):
		return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", expired.Requested, expired.Oldest))
	case errors.As(err, &future):
		return TooLarge(uint64(future.Requested), future.Current, 1)
	case errors.Is(err, resources.ErrNotFound):
		return apierrors.NewNotFound(resource, name)
	case errors.Is(err, resources.ErrExists):
		return apierrors.NewAlreadyExists(resource, name)
	case errors.Is(err, resources.ErrRefused):
		return refused(err, resource, name)
	case errors.Is(err, resources.ErrMoved):
		return moved(err)
	case errors.Is(err, resources.ErrFull):
		return full(resource, verb)
	case errors.Is(err, resources.ErrUnavailable), errors.Is(err, resources.ErrClosed):
		return apierrors.NewServerTimeout(resource, verb, 2)
	case errors.As(err, &expected):
		return apierrors.NewServerTimeout(resource, verb, 1) // nothing was written; with the current rules it may succeed
	case errors.As(err, &secret):
		return unreadable(secret, resource, verb)
	case errors.Is(err, resources.ErrBusy):
		return apierrors.NewTooManyRequests("Too many requests, please try again later: "+err.Error(), 1)
	case errors.Is(err, resources.ErrUnknownOutcome):
		return apierrors.NewTimeoutError("the outcome of the request is unknown: "+err.Error(), 1)
	case errors.Is(err, context.DeadlineExceeded):
		return apierrors.NewTimeoutError("request did not complete within requested timeout - "+err.Error(), 0)
	}
	return err
}

// movedRetry is the Retry-After in seconds: by then clients may reach a server of the other database.
const movedRetry = 5

// moved is the error for a write to a server whose store has moved to another database.
func moved(err error) error {
	_, where, _ := strings.Cut(err.Error(), resources.ErrMoved.Error())
	s := apierrors.NewServiceUnavailable(resources.ErrMoved.Error() + where)
	s.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: movedRetry}
	return s
}

// full is the error for a write for which there is no room: clients retry it, and people read how to make room.
func full(resource schema.GroupResource, verb string) error {
	err := apierrors.NewServerTimeout(resource, verb, 2)
	err.ErrStatus.Message = strings.TrimSuffix(err.ErrStatus.Message, ".") + ": " + resources.ErrFull.Error()
	return err
}

// refused is the error for a write of something that the store cannot hold. Clients do not retry a 422.
func refused(err error, resource schema.GroupResource, name string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity,
		Reason: metav1.StatusReasonInvalid, Message: fmt.Sprintf("%s %q is invalid: %s", resource, name, err),
		Details: &metav1.StatusDetails{Group: resource.Group, Kind: resource.Resource, Name: name}}}
}

// TooLarge is the error for a read at a future revision ("Unavailable resource versions" of the API concepts page). again is the Retry-After in
// seconds; 0: none.
func TooLarge(requested uint64, current int64, again int) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", requested, current), again)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// Of returns the Status of any error: its own, or a 500 with its text.
func Of(err error) *metav1.Status {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		return &metav1.Status{TypeMeta: typeMeta, Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}
	}
	s := api.Status()
	s.TypeMeta = typeMeta
	if s.Status == "" {
		s.Status = metav1.StatusFailure
	}
	if s.Code == 0 {
		s.Code = http.StatusInternalServerError
		if s.Status == metav1.StatusSuccess {
			s.Code = http.StatusOK
		}
	}
	return &s
}

var typeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
