package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The rows of this file, as reports call them.
const (
	// rowControllers is the usual work of controllers: read an object, write its status, and patch it.
	rowControllers = "get + update status + patch pod, 64 controllers"
	// rowNodes is the bulk of a cluster's writes: 8 of 10 operations renew a node's lease or report its status; the others read and patch pods.
	rowNodes = "leases and status of 500 nodes, 80 %"
)

const (
	controllers = 64
	// kubelets is how many clients report for the nodes, each for some of them.
	kubelets = 100

	leasesPath = "/apis/coordination.k8s.io/v1/namespaces/" + namespace + "/leases"
	nodesPath  = "/api/v1/nodes"
	// benchNodesPath selects the nodes that a run creates.
	benchNodesPath = nodesPath + "?labelSelector=" + benchLabel
	benchLabel     = "rowlock-bench"
)

// controllers measures the closed loop of many controllers.
func (b *bench) controllers(ctx context.Context) error {
	n := min(controllers, b.Pods)
	for _, p := range b.Protocols {
		if _, err := b.measureRow(ctx, p, n, load{row: rowControllers}, b.reconcile(n)); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) reconcile(clients int) operation {
	return func(ctx context.Context, c *client, n, turn, seq int) (int64, error) {
		path := b.mine(n, turn, clients)
		total, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true})
		if err != nil {
			return total, err
		}
		body := bytes.Clone(c.body.Bytes())
		if !setTurn(body, int64(seq)+2) {
			return total, errors.New("the pod has lost its annotation")
		}
		for _, r := range []request{
			{method: http.MethodPut, path: path + "/status", body: body},
			turnPatch(path, int64(seq)+3),
		} {
			got, err := c.do(ctx, r)
			if total += got; err != nil {
				return total, err
			}
		}
		return total, nil
	}
}

// nodes measures the mix of writes by nodes and other clients.
func (b *bench) nodes(ctx context.Context) error {
	if b.unwanted(rowNodes) || b.Nodes == 0 {
		return nil
	}
	b.begin("nodes")
	node, lease, err := nodeTemplates()
	if err != nil {
		return err
	}
	for i := range b.Nodes {
		for path, body := range map[string][]byte{nodesPath: node.fill(nodeName(i), i, 1), leasesPath: lease.fill(nodeName(i), i, 1)} {
			if _, err := b.admin.do(ctx, request{method: http.MethodPost, path: path, body: body}); err != nil {
				return fmt.Errorf("node: %w", err)
			}
		}
	}
	n := min(kubelets, b.Nodes, b.Pods)
	for _, p := range b.Protocols {
		if _, err := b.measureRow(ctx, p, n, load{row: rowNodes}, b.report(n)); err != nil {
			return err
		}
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("rowlock-bench-%d", i) }

// report is one operation of the mix.
func (b *bench) report(clients int) operation {
	return func(ctx context.Context, c *client, n, turn, seq int) (int64, error) {
		name := nodeName((n + clients*(turn%max(1, b.Nodes/clients))) % b.Nodes)
		switch turn % 10 {
		case 0:
			return c.do(ctx, request{method: http.MethodGet, path: b.mine(n, turn, clients)})
		case 5:
			return c.do(ctx, turnPatch(b.mine(n, turn, clients), int64(seq)+2))
		case 1, 3, 7, 9:
			return c.do(ctx, request{method: http.MethodPatch, path: nodesPath + "/" + name + "/status",
				contentType: "application/strategic-merge-patch+json", body: heartbeat(seq)})
		}
		return renew(ctx, c, leasesPath+"/"+name, seq)
	}
}

// heartbeat is a kubelet's patch when only the time has changed.
func heartbeat(seq int) []byte {
	now := fmt.Sprintf("2026-01-%02dT%02d:%02d:%02dZ", 1+seq/86400%28, seq/3600%24, seq/60%60, seq%60)
	var conditions []string
	for _, typ := range nodeConditions {
		conditions = append(conditions, fmt.Sprintf(`{"type":%q,"lastHeartbeatTime":%q}`, typ, now))
	}
	return fmt.Appendf(nil, `{"status":{"conditions":[%s]}}`, strings.Join(conditions, ","))
}

// renew writes a lease back, as it was read, with another turn: a kubelet keeps the lease that it wrote last.
func renew(ctx context.Context, c *client, path string, seq int) (int64, error) {
	got, err := c.do(ctx, request{method: http.MethodGet, path: path, keep: true})
	if err != nil {
		return got, err
	}
	body := bytes.Clone(c.body.Bytes())
	if !setTurn(body, int64(seq)+2) {
		return got, errors.New("the lease has lost its annotation")
	}
	put, err := c.do(ctx, request{method: http.MethodPut, path: path, body: body})
	return got + put, err
}

var nodeConditions = []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeReady}

// nodeTemplates are a node with the status that kubelets report, and its lease.
func nodeTemplates() (node, lease template, err error) {
	meta := metav1.ObjectMeta{
		Name:        namePlace,
		Labels:      map[string]string{benchLabel: "true", "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "topology.kubernetes.io/zone": "a"},
		Annotations: map[string]string{turnAnnotation: strings.Repeat("0", turnDigits)},
	}
	resources := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("200Gi")}
	status := corev1.NodeStatus{Capacity: resources, Allocatable: resources,
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.7"}, {Type: corev1.NodeHostName, Address: "node"}}}
	for _, typ := range nodeConditions {
		status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: typ, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficient", Message: "kubelet has sufficient of it"})
	}
	for i := range 20 {
		status.Images = append(status.Images, corev1.ContainerImage{SizeBytes: 100 << 20,
			Names: []string{fmt.Sprintf("registry.example.com/team/image-%d@sha256:%064d", i, i), fmt.Sprintf("registry.example.com/team/image-%d:1.0", i)}})
	}
	if node, err = encodeTemplate(&corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: meta, Status: status}); err != nil {
		return nil, nil, err
	}
	holder, seconds := "node", int32(40)
	lease, err = encodeTemplate(&coordinationv1.Lease{TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}, ObjectMeta: meta,
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds}})
	return node, lease, err
}
