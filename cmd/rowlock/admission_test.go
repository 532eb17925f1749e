package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// NodeRestriction is on in serve unless it is turned off, whatever else is turned on, and off where kube-apiserver is expected, unless it
// is turned on there.
func TestKubeletsAreRestricted(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--enable-admission-plugins=AlwaysPullImages"}, `node "a" can only create mirror pods`},
		{[]string{"--disable-admission-plugins=NodeRestriction"}, ""},
	} {
		p := start(t, append([]string{"--data-dir", t.TempDir()}, c.args...)...)
		config, err := clientcmd.BuildConfigFromFlags("", p.kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:node:a", Groups: []string{"system:nodes"}}
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{NodeName: "a", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		_, err = client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
		if (c.want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v", c.args, err)
		}
		if code := p.end(); code != 0 {
			t.Errorf("ended with %d", code)
		}
	}
	o := &kubeAPIServerOptions{}
	o.sections()
	if on := o.serve.admission.enabled(); len(on) > 0 {
		t.Errorf("on as kube-apiserver: %v", on)
	}
}
