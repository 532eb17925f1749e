package upstream

import (
	"k8s.io/apiserver/pkg/util/flowcontrol"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/eventclock"
	"k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing/queueset"
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics"
	"k8s.io/client-go/informers"
	flowcontrolclient "k8s.io/client-go/kubernetes/typed/flowcontrol/v1"
)

// NewFlows is flowcontrol.New, which has no parameter for the factory of the queues. The function queues gets upstream's factory, and returns the
// one to use.
func NewFlows(informerFactory informers.SharedInformerFactory, client flowcontrolclient.FlowcontrolV1Interface, serverConcurrencyLimit int,
	queues func(fairqueuing.QueueSetFactory) fairqueuing.QueueSetFactory) flowcontrol.Interface {
	clk := eventclock.Real{}
	return flowcontrol.NewTestable(flowcontrol.TestableConfig{
		Name:                   "Controller",
		Clock:                  clk,
		AsFieldManager:         flowcontrol.ConfigConsumerAsFieldManager,
		FoundToDangling:        func(found bool) bool { return !found },
		InformerFactory:        informerFactory,
		FlowcontrolClient:      client,
		ServerConcurrencyLimit: serverConcurrencyLimit,
		ReqsGaugeVec:           metrics.PriorityLevelConcurrencyGaugeVec,
		ExecSeatsGaugeVec:      metrics.PriorityLevelExecutionSeatsGaugeVec,
		QueueSetFactory:        queues(queueset.NewQueueSetFactory(clk)),
	})
}
