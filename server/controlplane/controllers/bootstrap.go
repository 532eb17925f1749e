package controllers

import (
	"context"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	informersv1 "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/kubernetes/pkg/controller/bootstrap"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers/hosted"
)

// isClusterInfo tells whether a ConfigMap is cluster-info, by which holders of a bootstrap token verify the server.
func isClusterInfo(o *resources.Object) bool {
	return o.Namespace == metav1.NamespacePublic && o.Name == bootstrapapi.ConfigMapClusterInfo
}

// isBootstrapToken tells whether a Secret is a bootstrap token. The type of a Secret is immutable.
func isBootstrapToken(o *resources.Object) bool {
	return o.Namespace == metav1.NamespaceSystem && corev1.SecretType(gjson.GetBytes(o.Data, "type").Str) == bootstrapapi.SecretTypeBootstrapToken
}

// newBootstrapSigner returns the controller that signs the ConfigMap cluster-info with every bootstrap token.
func newBootstrapSigner(c Config) controller {
	o := hosted.Options{Name: BootstrapSigner, Follows: []hosted.Followed{
		{Resource: "configmaps", Shows: isClusterInfo, Needs: isClusterInfo},
		{Resource: secretsResource, Shows: isBootstrapToken},
	}}
	return newHost(c, o, "bootstrap-signer", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		core := informersv1.New(informers, "", nil)
		s, err := bootstrap.NewSigner(client, core.Secrets(), core.ConfigMaps(), bootstrap.DefaultSignerOptions())
		if err != nil {
			return err
		}
		s.Run(ctx)
		return nil
	})
}

// newBootstrapCleaner returns the controller that removes expired bootstrap tokens.
func newBootstrapCleaner(c Config) controller {
	o := hosted.Options{Name: BootstrapCleaner, Follows: []hosted.Followed{{Resource: secretsResource, Shows: isBootstrapToken, Needs: isBootstrapToken}}}
	return newHost(c, o, "token-cleaner", func(ctx context.Context, informers *hosted.Informers, client kubernetes.Interface) error {
		t, err := bootstrap.NewTokenCleaner(client, informersv1.New(informers, "", nil).Secrets(), bootstrap.DefaultTokenCleanerOptions())
		if err != nil {
			return err
		}
		t.Run(ctx)
		return nil
	})
}
