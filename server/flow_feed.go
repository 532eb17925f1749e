package server

import (
	"context"
	"sync"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	applyv1 "k8s.io/client-go/applyconfigurations/flowcontrol/v1"
	"k8s.io/client-go/informers"
	flowinformers "k8s.io/client-go/informers/flowcontrol"
	"k8s.io/client-go/informers/internalinterfaces"
	flowclientv1 "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
	"k8s.io/client-go/tools/cache"
)

// flowFeed provides the informers of upstream's controller of priority and fairness. They contain the objects that were last given to use.
type flowFeed struct {
	informers.SharedInformerFactory // nil: the controller calls only Flowcontrol

	schemas, levels configInformer
	using           sync.Mutex // held by use

	mu    sync.Mutex
	reads int           // how often the controller has started to read the configuration
	more  chan struct{} // closed when reads grows
	ended <-chan struct{}
}

func newFlowFeed(ended <-chan struct{}) *flowFeed {
	f := &flowFeed{ended: ended, more: make(chan struct{})}
	f.schemas.indexer = cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	f.levels.indexer = &noticed{Indexer: cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil), feed: f}
	return f
}

// use returns once the controller applies these objects, or the server has ended. One goroutine of the controller digests them, and nothing signals
// that it is done. But it reads the configuration, levels first, before it digests it: it is done when it reads the configuration once more.
func (f *flowFeed) use(schemas []*flowcontrolv1.FlowSchema, levels []*flowcontrolv1.PriorityLevelConfiguration) {
	f.using.Lock()
	defer f.using.Unlock()
	f.schemas.replace(asAny(schemas))
	f.levels.replace(asAny(levels))
	read := f.readings()
	for i := 1; i <= 2; i++ {
		f.look()
		if !f.await(read + i) {
			return
		}
	}
}

// look makes the controller read the configuration again. It reads all levels, whichever one the event is for.
func (f *flowFeed) look() {
	f.levels.handler.OnAdd(bootstrap.MandatoryPriorityLevelConfigurationExempt, false)
}

func asAny[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

func (f *flowFeed) readings() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// await waits until the controller has started to read that many times. It returns false if the server has ended before.
func (f *flowFeed) await(reads int) bool {
	for {
		f.mu.Lock()
		done, more := f.reads >= reads, f.more
		f.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-more:
		case <-f.ended:
			return false
		}
	}
}

// Flowcontrol implements informers.SharedInformerFactory.
func (f *flowFeed) Flowcontrol() flowinformers.Interface { return flowinformers.New(f, "", nil) }

// InformerFor implements internalinterfaces.SharedInformerFactory.
func (f *flowFeed) InformerFor(obj runtime.Object, _ internalinterfaces.NewInformerFunc) cache.SharedIndexInformer {
	if _, ok := obj.(*flowcontrolv1.FlowSchema); ok {
		return &f.schemas
	}
	return &f.levels
}

// noticed is an indexer that notes when it is read.
type noticed struct {
	cache.Indexer
	feed *flowFeed
}

// List implements cache.Store.
func (n *noticed) List() []any {
	n.feed.mu.Lock()
	n.feed.reads++
	close(n.feed.more)
	n.feed.more = make(chan struct{})
	n.feed.mu.Unlock()
	return n.Indexer.List()
}

// configInformer has the parts of an informer that the controller uses: the lister, and one event handler. Other methods panic.
type configInformer struct {
	cache.SharedIndexInformer // nil

	indexer cache.Indexer
	handler cache.ResourceEventHandler
}

func (i *configInformer) replace(objects []any) {
	_ = i.indexer.Replace(objects, "") // fails only for objects without names
}

func (i *configInformer) GetIndexer() cache.Indexer { return i.indexer }
func (i *configInformer) HasSynced() bool           { return true }

// AddEventHandler implements cache.SharedInformer.
func (i *configInformer) AddEventHandler(h cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	i.handler = h
	return nil, nil
}

// flowClient is the controller's client. It writes nothing. The controller would write only the status of FlowSchemas, which the control plane
// writes instead: it has read the objects that it gave to the feed, and knows whether they have changed since.
type flowClient struct {
	flowclientv1.FlowcontrolV1Interface
}

// FlowSchemas implements flowclientv1.FlowcontrolV1Interface.
func (flowClient) FlowSchemas() flowclientv1.FlowSchemaInterface { return flowStatus{} }

type flowStatus struct {
	flowclientv1.FlowSchemaInterface
}

// ApplyStatus implements flowclientv1.FlowSchemaInterface.
func (flowStatus) ApplyStatus(context.Context, *applyv1.FlowSchemaApplyConfiguration, metav1.ApplyOptions) (*flowcontrolv1.FlowSchema, error) {
	return nil, nil
}
