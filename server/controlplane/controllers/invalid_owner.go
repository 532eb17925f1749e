package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// invalidOwner is a reference of an object to an owner in another namespace, which is not valid.
type invalidOwner struct {
	key   resources.Key
	uid   types.UID
	owner owner
}

// report writes the Event about such a reference. Events are best effort: an error is logged, and the write is not retried.
func (g *garbage) report(ctx context.Context, s invalidOwner) error {
	catalog := g.registry.Catalog()
	t, ok := catalog.Type(s.key.Resource)
	events, eventsOK := catalog.Type("events")
	if !ok || !eventsOK {
		return nil
	}
	event := s.event(t, metav1.Now())
	r := resources.CreateRequest{Type: events, Object: event}
	_, err := g.pipeline.Create(collector.Request(ctx, "create", events, events.KeyOf(event.Namespace, event.Name)), &r)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		g.logger.Info("an Event could not be written", "about", s.key.String(), "error", err)
	}
	return nil
}

func (s invalidOwner) event(t *resources.Type, now metav1.Time) *core.Event {
	namespace := s.key.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	return &core.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: util.GenerateEventName(s.key.Name, now.UnixNano())},
		InvolvedObject: core.ObjectReference{Kind: t.Kind, APIVersion: t.StorageVersion.String(),
			Namespace: s.key.Namespace, Name: s.key.Name, UID: s.uid},
		Type: corev1.EventTypeWarning, Reason: "OwnerRefInvalidNamespace",
		Message: fmt.Sprintf("ownerRef [%s/%s, namespace: %s, name: %s, uid: %s] does not exist in namespace %q",
			s.owner.apiVersion, s.owner.kind, s.key.Namespace, s.owner.name, s.owner.uid, s.key.Namespace),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: core.EventSource{Component: GarbageCollector}, ReportingController: GarbageCollector,
	}
}
