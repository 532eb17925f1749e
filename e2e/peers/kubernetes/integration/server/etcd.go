package server

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// ErrNoEtcd is the error of whatever wants to read from etcd, or to write to it.
var ErrNoEtcd = errors.New("there is no etcd: Rowlock stores its objects in a database")

// EtcdClient returns the client of an etcd that is not there. Tests write one kind of object with it that has another way into a server: configurations of
// webhooks of admissionregistration.k8s.io/v1beta1, which v1.37 serves no longer, are created as v1.
func EtcdClient(config *rest.Config) (*clientv3.Client, error) {
	objects, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	client := clientv3.NewCtxClient(context.Background())
	client.KV = keys{objects: objects}
	return client, nil
}

// keys is a KV whose requests fail but for the one that EtcdClient names.
type keys struct {
	clientv3.KV
	objects dynamic.Interface
}

// Get fails.
func (keys) Get(context.Context, string, ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	return nil, ErrNoEtcd
}

// Delete fails.
func (keys) Delete(context.Context, string, ...clientv3.OpOption) (*clientv3.DeleteResponse, error) {
	return nil, ErrNoEtcd
}

// Txn panics, since it has no error to return.
func (keys) Txn(context.Context) clientv3.Txn { panic(ErrNoEtcd) }

// Put creates the configuration of a webhook.
func (k keys) Put(ctx context.Context, key, value string, _ ...clientv3.OpOption) (*clientv3.PutResponse, error) {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(value)); err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	resources := map[string]string{"ValidatingWebhookConfiguration": "validatingwebhookconfigurations", "MutatingWebhookConfiguration": "mutatingwebhookconfigurations"}
	resource, ok := resources[object.GetKind()]
	if !ok || object.GetAPIVersion() != "admissionregistration.k8s.io/v1beta1" {
		return nil, ErrNoEtcd
	}
	group := schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	object.SetAPIVersion(group.String())
	webhooks, _, err := unstructured.NestedSlice(object.Object, "webhooks")
	if err != nil {
		return nil, err
	}
	for _, webhook := range webhooks {
		// v1beta1's default, Unknown, cannot be created.
		webhook.(map[string]any)["sideEffects"] = "None"
	}
	object.Object["webhooks"] = webhooks
	_, err = k.objects.Resource(group.WithResource(resource)).Create(ctx, object, metav1.CreateOptions{})
	return &clientv3.PutResponse{}, err
}
