package controllers

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// suspects are references of an object whose owners were not found where they have to be. Those that are in another namespace are not valid.
type suspects struct {
	key    resources.Key
	uid    types.UID
	owners []owner
}

const (
	// mostSuspects bounds the suspects of an object, which may have 20,000 references. kube-controller-manager writes no more Events about one object
	// at once.
	mostSuspects = 25
	// mostReports bounds the objects whose suspects wait. Further ones get no Events.
	mostReports = 1000
)

// report writes an Event about each reference to an owner in another namespace.
func (g *garbage) report(ctx context.Context, s *suspects) error {
	byType := map[*resources.Type][]owner{}
	for _, o := range s.owners {
		if t, err := g.ownerType(o, s.key); err == nil || errors.Is(err, errNamespacedOwner) {
			byType[t] = append(byType[t], o)
		}
	}
	for t, owners := range byType {
		for _, o := range g.elsewhere(ctx, t, owners, s.key.Namespace) {
			g.reportOne(ctx, s, o)
		}
	}
	return nil
}

// elsewhere returns those owners that are in another namespace than the object that refers to them.
func (g *garbage) elsewhere(ctx context.Context, t *resources.Type, owners []owner, namespace string) (found []owner) {
	s, err := g.store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return nil
	}
	byName := map[string][]owner{}
	for _, o := range owners {
		byName[o.name] = append(byName[o.name], o)
	}
	s.Ascend("", "", func(other *resources.Object) bool {
		named := byName[other.Name]
		if len(named) == 0 || other.Namespace == namespace {
			return true
		}
		uid := readMetadata(other.Data).uid
		for _, o := range named {
			if o.uid == uid {
				found = append(found, o)
			}
		}
		return ctx.Err() == nil
	})
	return found
}

// reportOne writes the Event about a reference that is not valid. Events are best effort: an error is logged, and the write is not retried.
func (g *garbage) reportOne(ctx context.Context, s *suspects, o owner) {
	catalog := g.registry.Catalog()
	t, ok := catalog.Type(s.key.Resource)
	events, eventsOK := catalog.Type("events")
	if !ok || !eventsOK {
		return
	}
	manager, err := events.ServerManager("")
	if err != nil {
		g.logger.Error("Events have no field manager", "error", err)
		return
	}
	event := s.event(t, o, metav1.Now())
	r := resources.CreateRequest{Type: events, Object: manager.Create(event, fieldManager)}
	_, err = g.pipeline.Create(collector.Request(ctx, "create", events, events.KeyOf(event.Namespace, event.Name)), &r)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		g.logger.Info("an Event could not be written", "about", s.key.String(), "error", err)
	}
}

func (s *suspects) event(t *resources.Type, o owner, now metav1.Time) *core.Event {
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
			o.apiVersion, o.kind, s.key.Namespace, o.name, o.uid, s.key.Namespace),
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: core.EventSource{Component: GarbageCollector}, ReportingController: GarbageCollector,
	}
}
