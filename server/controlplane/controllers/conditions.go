package controllers

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/kubernetes/pkg/apis/core"
)

// The conditions of a namespace that is being deleted have the same texts as on a cluster, to the letter: people and
// programs look for these texts. A kube-controller-manager that runs beside this server would otherwise overwrite them,
// and this server would overwrite its texts.

// condition is a condition with fixed texts for its good and its bad state, except for the message of the bad one.
type condition struct {
	kind               core.NamespaceConditionType
	goodReason, good   string
	badReason          string
	bad                func(*remaining) string
	evenWhilePodsFirst bool
}

var conditions = []condition{
	// The registry says which types this server serves; the discovery of other servers may fail.
	{kind: "NamespaceDeletionDiscoveryFailure", goodReason: "ResourcesDiscovered", good: "All resources successfully discovered",
		badReason: "DiscoveryFailed", bad: (*remaining).discoveryMessage, evenWhilePodsFirst: true},
	{kind: "NamespaceDeletionGroupVersionParsingFailure", goodReason: "ParsedGroupVersions", good: "All legacy kube types successfully parsed"},
	{kind: "NamespaceDeletionContentFailure", goodReason: "ContentDeleted", good: "All content successfully deleted, may be waiting on finalization",
		badReason: "ContentDeletionFailed", bad: (*remaining).failureMessage, evenWhilePodsFirst: true},
	{kind: "NamespaceContentRemaining", goodReason: "ContentRemoved", good: "All content successfully removed",
		badReason: "SomeResourcesRemain", bad: (*remaining).contentMessage},
	{kind: "NamespaceFinalizersRemaining", goodReason: "ContentHasNoFinalizers", good: "All content-preserving finalizers finished",
		badReason: "SomeFinalizersRemain", bad: (*remaining).finalizersMessage},
}

// setConditions writes what remains into the status of the namespace. While pods hold up everything else,
// kube-controller-manager does not count them as remaining content; this server does not count them either.
func (r *remaining) setConditions(ns *core.Namespace) {
	ns.Status.Phase = core.NamespaceTerminating
	for _, c := range conditions {
		status, reason, message := core.ConditionFalse, c.goodReason, c.good
		if c.bad != nil && (c.evenWhilePodsFirst || !r.podsOnly) {
			if m := c.bad(r); m != "" {
				status, reason, message = core.ConditionTrue, c.badReason, m
			}
		}
		setCondition(&ns.Status, core.NamespaceCondition{Type: c.kind, Status: status, LastTransitionTime: metav1.Now(), Reason: reason, Message: message})
	}
}

// setCondition sets a condition. The transition time stays when the status does not change.
func setCondition(s *core.NamespaceStatus, c core.NamespaceCondition) {
	i := slices.IndexFunc(s.Conditions, func(old core.NamespaceCondition) bool { return old.Type == c.Type })
	if i < 0 {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if s.Conditions[i].Status == c.Status {
		c.LastTransitionTime = s.Conditions[i].LastTransitionTime
	}
	s.Conditions[i] = c
}

func (r *remaining) discoveryMessage() string {
	if len(r.unknown) == 0 {
		return ""
	}
	return fmt.Sprintf("Discovery failed for some groups, %d failing: %v", len(r.unknown), &discovery.ErrGroupDiscoveryFailed{Groups: r.unknown})
}

func (r *remaining) failureMessage() string {
	failures := append(slices.Clone(r.failures), r.stuck...)
	if len(failures) == 0 {
		return ""
	}
	var messages []string
	for _, err := range failures {
		messages = append(messages, err.Error())
	}
	slices.Sort(messages)
	return fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(messages), strings.Join(messages, ", "))
}

func (r *remaining) contentMessage() string {
	if len(r.count) == 0 {
		return ""
	}
	var parts []string
	for t, n := range r.count {
		parts = append(parts, fmt.Sprintf("%s.%s has %d resource instances", t.Resource, t.Group, n))
	}
	slices.Sort(parts)
	return "Some resources are remaining: " + strings.Join(parts, ", ")
}

func (r *remaining) finalizersMessage() string {
	if len(r.finalizers) == 0 {
		return ""
	}
	var parts []string
	for f, n := range r.finalizers {
		parts = append(parts, fmt.Sprintf("%s in %d resource instances", f, n))
	}
	slices.Sort(parts)
	return "Some content in the namespace has finalizers remaining: " + strings.Join(parts, ", ")
}
