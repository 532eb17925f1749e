package main

import (
	"context"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apipod "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/util/pod"
)

// report writes the status of a Pod, and keeps it as the Pod's.
func (n *node) report(ctx context.Context, p *corev1.Pod, status *corev1.PodStatus) error {
	if _, _, _, err := pod.PatchPodStatus(ctx, n.client, p.Namespace, p.Name, p.UID, p.Status, *status); err != nil {
		return err
	}
	p.Status = *status
	return nil
}

// waitingStatus is the status of a Pod whose containers wait for the volumes.
func waitingStatus(p *corev1.Pod) *corev1.PodStatus {
	names := make([]string, len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		names[i] = p.Spec.Containers[i].Name
	}
	status := newStatus(p, corev1.PodPending, corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
		Message: "containers with unready status: [" + strings.Join(names, " ") + "]"})
	for _, name := range names {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: name,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}})
	}
	return status
}

// runningStatus is the status of a Pod all of whose containers run and are ready.
func runningStatus(p *corev1.Pod, ip netip.Addr) *corev1.PodStatus {
	status, now := newStatus(p, corev1.PodRunning, corev1.PodCondition{Status: corev1.ConditionTrue}), metav1.Now()
	status.StartTime = &now
	status.PodIP, status.PodIPs = ip.String(), []corev1.PodIP{{IP: ip.String()}}
	status.HostIP, status.HostIPs = podNetwork.Addr().String(), []corev1.HostIP{{IP: podNetwork.Addr().String()}}
	for _, c := range p.Spec.InitContainers {
		status.InitContainerStatuses = append(status.InitContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}}})
	}
	started := true
	for _, c := range p.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: &started,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}})
	}
	return status
}

// endedStatus is the status of a Pod all of whose containers have ended, with these exit codes.
func endedStatus(p *corev1.Pod, codes []int32) *corev1.PodStatus {
	status, now := newStatus(p, corev1.PodSucceeded, corev1.PodCondition{Status: corev1.ConditionFalse, Reason: "PodCompleted"}), metav1.Now()
	for i, c := range p.Spec.Containers {
		reason := "Completed"
		if codes[i] != 0 {
			status.Phase, reason = corev1.PodFailed, "Error"
		}
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: codes[i], Reason: reason, FinishedAt: now}}})
	}
	return status
}

// newStatus is the status of a Pod in another phase and with another readiness, without its containers.
func newStatus(p *corev1.Pod, phase corev1.PodPhase, ready corev1.PodCondition) *corev1.PodStatus {
	status := p.Status.DeepCopy()
	status.Phase, status.ContainerStatuses = phase, nil
	for _, of := range []corev1.PodConditionType{corev1.ContainersReady, corev1.PodReady} {
		ready.Type = of
		apipod.UpdatePodCondition(status, ready.DeepCopy())
	}
	begun := &corev1.PodCondition{Type: corev1.PodInitialized, Status: corev1.ConditionTrue}
	apipod.UpdatePodCondition(status, begun)
	return status
}
