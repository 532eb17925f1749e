package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/component-helpers/apimachinery/lease"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/kubernetes/pkg/kubelet/clustertrustbundle"
	"k8s.io/kubernetes/pkg/kubelet/podcertificate"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/e2e/harness"
)

const nodeName = "conformance"

// podNetwork has the addresses of Pods; the first one is the node's. They are set aside for benchmarks of networks (RFC 2544), and no loopback addresses,
// which endpoints may not have.
var podNetwork = netip.MustParsePrefix("198.18.0.1/16")

// node stands in for a scheduler and the one node of a cluster. It has the rights that these have. It binds all Pods to the node, and reports them as
// running. The programs of a few images really run, by which Services, webhooks and aggregated APIs have servers (images).
type node struct {
	client       kubernetes.Interface // as the node
	scheduler    kubernetes.Interface
	bundles      clustertrustbundle.Manager
	certificates podcertificate.Manager
	dir          string
	api          netip.AddrPort // of the Service kubernetes
	server       string         // host and port of the server
	last         atomic.Uint32  // number of the last Pod's address

	stop    context.CancelFunc
	running sync.WaitGroup
	mu      sync.Mutex
	pods    map[types.UID]context.CancelFunc
}

// startNode registers the node with the server. The controllers of kube-controller-manager will find it ready.
func startNode(ctx context.Context, server *harness.Server, dir string) (*node, error) {
	ctx, stop := context.WithCancel(ctx)
	n := &node{dir: dir, stop: stop, pods: map[types.UID]context.CancelFunc{}}
	if err := n.start(ctx, server); err != nil {
		n.Stop()
		return nil, err
	}
	return n, nil
}

// Stop ends all Pods.
func (n *node) Stop() {
	n.stop()
	n.running.Wait()
}

func (n *node) start(ctx context.Context, server *harness.Server) (err error) {
	if n.scheduler, err = clientAs(ctx, server, "system:kube-scheduler"); err != nil {
		return err
	}
	if n.client, err = clientAs(ctx, server, "system:node:"+nodeName, "system:nodes"); err != nil {
		return err
	}
	config, err := server.Config()
	if err != nil {
		return err
	}
	n.server = strings.TrimPrefix(config.Host, "https://")
	service, err := n.client.CoreV1().Services("default").Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return err
	}
	ip, err := netip.ParseAddr(service.Spec.ClusterIP)
	if err != nil {
		return fmt.Errorf("the Service kubernetes: %w", err)
	}
	n.api = netip.AddrPortFrom(ip, uint16(service.Spec.Ports[0].Port))
	n.bundles = clustertrustbundle.NewLazyInformerManager(ctx, n.client, 256)
	n.last.Store(1) // the node's
	if err := n.register(ctx); err != nil {
		return err
	}
	n.follow(ctx)
	return nil
}

// clientAs returns a client with a certificate of a user, which `rowlock kubeconfig` makes.
func clientAs(ctx context.Context, server *harness.Server, user string, groups ...string) (kubernetes.Interface, error) {
	args := []string{"kubeconfig", "--data-dir", server.DataDir, "--kubeconfig", server.Kubeconfig, "--user", user, "--ttl", "6h"}
	for _, group := range groups {
		args = append(args, "--group", group)
	}
	cmd := exec.CommandContext(ctx, harness.Binary("rowlock"), args...)
	cmd.Stderr = os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("credentials of %s: %w", user, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(text)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	return kubernetes.NewForConfig(config)
}

// register creates the Node, reports it as ready, renews its Lease from then on, and waits until Pods may be bound to it.
func (n *node) register(ctx context.Context) error {
	made, err := n.client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, Labels: map[string]string{corev1.LabelHostname: nodeName, corev1.LabelOSStable: "linux"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("register the node: %w", err)
	}
	port, err := n.serve(ctx)
	if err != nil {
		return err
	}
	now, ready := metav1.Now(), made.DeepCopy()
	ready.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	ready.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: podNetwork.Addr().String()}}
	ready.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
		LastHeartbeatTime: now, LastTransitionTime: now}}
	if _, _, err := nodeutil.PatchNodeStatus(n.client.CoreV1(), nodeName, made, ready); err != nil {
		return fmt.Errorf("report the node: %w", err)
	}
	heartbeat := lease.NewController(clock.RealClock{}, n.client, nodeName, 40, nil, 10*time.Second, nodeName, corev1.NamespaceNodeLease, nil)
	n.running.Go(func() { heartbeat.Run(ctx) })
	return retry(ctx, func(ctx context.Context) error {
		seen, err := n.client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err == nil && len(seen.Spec.Taints) > 0 {
			err = errors.New("the node is tainted until kube-controller-manager has seen that it is ready")
		}
		return err
	})
}

// follow follows the Pods that are to be bound, and those of the node.
func (n *node) follow(ctx context.Context) {
	unbound := factoryFor(n.scheduler, "spec.nodeName", "")
	own := factoryFor(n.client, "spec.nodeName", nodeName)
	nodes := factoryFor(n.client, "metadata.name", nodeName)
	pods := own.Core().V1().Pods()
	certificates := podcertificate.NewIssuingManager(n.client, podsOf{pods.Lister()}, &record.FakeRecorder{},
		own.Certificates().V1().PodCertificateRequests(), nodes.Core().V1().Nodes(), nodeName, clock.RealClock{})
	n.certificates = certificates
	n.running.Go(func() { certificates.Run(ctx) })

	_, _ = unbound.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only if the informer has stopped
		AddFunc: func(o any) { n.bind(ctx, o.(*corev1.Pod)) },
	})
	_, _ = pods.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { n.begin(ctx, o.(*corev1.Pod)) },
		UpdateFunc: func(_, o any) {
			if pod := o.(*corev1.Pod); pod.DeletionTimestamp != nil {
				n.end(pod.UID)
			}
		},
		DeleteFunc: func(o any) {
			if last, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = last.Obj
			}
			n.end(o.(*corev1.Pod).UID)
		},
	})
	for _, factory := range []informers.SharedInformerFactory{nodes, own, unbound} {
		factory.StartWithContext(ctx)
		n.running.Go(func() {
			<-ctx.Done()
			factory.Shutdown()
		})
	}
}

// factoryFor makes informers of the objects in which a field has a value.
func factoryFor(client kubernetes.Interface, field, value string) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(field, value).String()
	}))
}

// podsOf lists the node's Pods for kubelet's own code.
type podsOf struct{ lister corelisters.PodLister }

// GetPods returns the Pods.
func (p podsOf) GetPods() []*corev1.Pod {
	pods, _ := p.lister.List(labels.Everything()) // from memory
	return pods
}

// GetPodByUID returns one of the Pods.
func (p podsOf) GetPodByUID(uid types.UID) (*corev1.Pod, bool) {
	for _, pod := range p.GetPods() {
		if pod.UID == uid {
			return pod, true
		}
	}
	return nil, false
}

// bind assigns a Pod to the node, as a scheduler does.
func (n *node) bind(ctx context.Context, pod *corev1.Pod) {
	if pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 {
		return
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName}}
	if err := n.scheduler.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil && !gone(err) {
		n.complain(pod, err)
	}
}

// begin runs a Pod until end is called for it, and then says that its containers have ended, for which the server may wait.
func (n *node) begin(ctx context.Context, pod *corev1.Pod) {
	pod = pod.DeepCopy()
	life, stop := context.WithCancel(ctx)
	n.mu.Lock()
	n.pods[pod.UID] = stop
	n.mu.Unlock()
	if pod.DeletionTimestamp != nil {
		n.end(pod.UID)
	}
	n.certificates.TrackPod(ctx, pod)
	n.running.Go(func() {
		defer n.certificates.ForgetPod(ctx, pod)
		if err := n.run(life, pod); err != nil && life.Err() == nil {
			n.complain(pod, err)
			<-life.Done() // it stays pending
		}
		if ctx.Err() != nil {
			return
		}
		ended := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
		if err := n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, ended); err != nil && !gone(err) && ctx.Err() == nil {
			n.complain(pod, err)
		}
	})
}

func (n *node) end(uid types.UID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if stop := n.pods[uid]; stop != nil {
		stop()
		delete(n.pods, uid)
	}
}

func (n *node) complain(pod *corev1.Pod, err error) {
	fmt.Fprintf(os.Stderr, "node: Pod %s/%s: %v\n", pod.Namespace, pod.Name, err)
}

// gone says whether an error means that the Pod has been deleted, or is another one.
func gone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }

// podDir is the directory of a Pod's containers and their logs.
func (n *node) podDir(pod *corev1.Pod) string {
	return filepath.Join(n.dir, pod.Namespace, pod.Name)
}

// nextIP returns an address for a Pod. None is given twice.
func (n *node) nextIP() netip.Addr {
	first, number := podNetwork.Masked().Addr().As4(), n.last.Add(1)
	return netip.AddrFrom4([4]byte{first[0], first[1], byte(number >> 8), byte(number)})
}

var errNotSupported = errors.New("the stand-in for a node does not support this")

// retry calls f until it succeeds, as a kubelet does. It returns f's last error when ctx ends.
func retry(ctx context.Context, f func(context.Context) error) error {
	for {
		err := f(ctx)
		if err == nil || errors.Is(err, errNotSupported) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(200 * time.Millisecond):
		}
	}
}
