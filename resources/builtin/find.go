package builtin

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// find reads an object in the hub form. Errors: a NotFound status, those of resources.Reader.
func find[P runtime.Object](ctx context.Context, s resources.Reader, t *resources.Type, key resources.Key) (P, error) {
	var none P
	o, err := s.Get(ctx, key, resources.At{Match: resources.MostRecent})
	if errors.Is(err, resources.ErrNotFound) {
		return none, apierrors.NewNotFound(t.GroupResource, key.Name)
	}
	if err != nil {
		return none, err
	}
	hub, err := t.DecodeHub(o)
	if err != nil {
		return none, err
	}
	return hub.(P), nil
}

func notImplemented(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotImplemented, Message: message,
	}}
}
