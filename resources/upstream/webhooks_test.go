package upstream

import (
	"fmt"
	"strings"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	webhookutil "k8s.io/apiserver/pkg/util/webhook"
	audit "k8s.io/apiserver/plugin/pkg/audit/webhook"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"
)

// TestWebhooksAreFound: ImagePolicyWebhook and the audit have their webhook in a field, through which WebhookOf finds it.
func TestWebhooksAreFound(t *testing.T) {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"], config.AuthInfos["u"] = &clientcmdapi.Cluster{Server: "https://hook.test"}, &clientcmdapi.AuthInfo{}
	config.Contexts["x"], config.CurrentContext = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}, "x"
	file := t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	images, err := imagepolicy.NewImagePolicyWebhook(strings.NewReader(fmt.Sprintf("imagePolicy: {kubeConfigFile: %s, allowTTL: 30, denyTTL: 30, retryBackoff: 500}", file)))
	if err != nil {
		t.Fatal(err)
	}
	events, err := audit.NewBackend(file, auditv1.SchemeGroupVersion, webhookutil.DefaultRetryBackoffWithInitialDelay(1), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, asks := range []any{images, events} {
		w, err := WebhookOf(asks)
		if err != nil {
			t.Fatal(err)
		}
		if at := w.RestClient.Get().URL().Host; at != "hook.test" || w.RestClient.Client == nil {
			t.Errorf("the webhook of a %T is %s", asks, at)
		}
	}
	if w, err := WebhookOf(struct{}{}); err == nil {
		t.Errorf("nobody's webhook is %v", w)
	}
}
