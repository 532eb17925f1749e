package controllers_test

import (
	"context"
	"testing"
	"time"

	"gopkg.in/go-jose/go-jose.v2/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
)

func never() <-chan struct{} { return nil }

// signer creates tokens that name their ServiceAccount.
type signer struct{}

func (signer) GenerateToken(_ context.Context, public *jwt.Claims, _ any) (string, error) {
	return "token of " + public.Subject, nil
}

// Every namespace has a ServiceAccount "default", which is recreated when it is deleted.
func TestDefaultServiceAccount(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.ServiceAccount} })
	c.start()
	there := func(namespace, not string) (uid string) {
		t.Helper()
		c.until("the ServiceAccount", resources.Key{Resource: "serviceaccounts", Namespace: namespace, Name: "default"}, func(o *resources.Object) bool {
			if o != nil {
				uid = string(decode[corev1.ServiceAccount](t, o).UID)
			}
			return o != nil && uid != not
		})
		return uid
	}
	uid := there("default", "")
	c.namespace("later")
	there("later", "")
	c.delete(c.get(resources.Key{Resource: "serviceaccounts", Namespace: "default", Name: "default"}), metav1.DeletePropagationBackground)
	there("default", uid)
}

// A Secret for the token of a ServiceAccount gets the token, and is removed with the ServiceAccount; one for a ServiceAccount
// that does not exist is removed at once.
func TestSecretsOfServiceAccounts(t *testing.T) {
	c := newCluster(t)
	c.serve()
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = []string{controllers.ServiceAccountToken, controllers.LegacyTokenCleaner}
		o.Trust = &controllers.Trust{Changed: never, Bundle: func() []byte { return []byte("authority") }}
		o.ServiceAccounts.Tokens = signer{}
	})
	c.start()
	account := c.create("serviceaccounts", &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}})
	secret := func(name, of string) resources.Key {
		o := c.create("secrets", &core.Secret{Type: core.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Annotations: map[string]string{core.ServiceAccountNameKey: of}}})
		return o.Key
	}
	filled := func(key resources.Key) {
		t.Helper()
		c.until("the token in "+key.Name, key, func(o *resources.Object) bool {
			if o == nil {
				t.Fatal("the Secret has gone")
			}
			s := decode[corev1.Secret](t, o)
			return string(s.Data["token"]) == "token of system:serviceaccount:ns:robot" && string(s.Data["ca.crt"]) == "authority" &&
				string(s.Data["namespace"]) == "ns" && s.Annotations["kubernetes.io/service-account.uid"] == string(decode[corev1.ServiceAccount](t, account).UID)
		})
	}
	gone := func(key resources.Key) {
		t.Helper()
		c.until("the end of "+key.Name, key, func(o *resources.Object) bool { return o == nil })
	}
	first := secret("first", "robot")
	filled(first)
	c.edit(c.get(first), func(m metav1.Object) { m.(*core.Secret).Data = map[string][]byte{} })
	filled(first)
	gone(secret("stray", "nobody"))
	c.delete(account, metav1.DeletePropagationBackground)
	gone(first)
}

// kube-controller-manager puts its whole --root-ca-file into Secrets. What it has published in kube-system stays there, too.
func TestSecretsWithFurtherCertificates(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	c.serve()
	own := newBundle(t)
	c.change = append(c.change, func(o *controllers.Config) {
		o.Enabled = []string{controllers.ServiceAccountToken}
		o.Trust = &controllers.Trust{Changed: never, Bundle: func() []byte { return []byte(own) }}
		o.ServiceAccounts.Tokens = signer{}
	})
	c.start()
	theirs := "# the authority\n" + own + newBundle(t)
	c.create("configmaps", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-root-ca.crt"}, Data: map[string]string{"ca.crt": theirs}})
	c.create("serviceaccounts", &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}})
	in := func(key resources.Key, bundle string) {
		t.Helper()
		c.until("the authority in "+key.Name, key, func(o *resources.Object) bool {
			return o != nil && string(decode[corev1.Secret](t, o).Data["ca.crt"]) == bundle
		})
	}
	secret := func(name string) resources.Key {
		return c.create("secrets", &core.Secret{Type: core.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name,
			Annotations: map[string]string{core.ServiceAccountNameKey: "robot"}}}).Key
	}
	published, other := secret("published"), secret("other")
	in(published, own)
	in(other, own)
	put := func(key resources.Key, bundle string) {
		t.Helper()
		c.edit(c.get(key), func(m metav1.Object) { m.(*core.Secret).Data["ca.crt"] = []byte(bundle) })
	}
	put(published, theirs)
	for _, wrong := range []string{newBundle(t), own + newBundle(t), "nothing"} { // handled after the other
		put(other, wrong)
		in(other, own)
	}
	in(published, theirs)
}

// Generated tokens that nobody has used for a year are marked, and deleted after another year; those that a Pod mounts, and those that users have
// created, are left alone.
func TestUnusedTokens(t *testing.T) {
	c := newCluster(t)
	c.namespace("kube-system")
	c.serve()
	day := func(yearsAgo int) string { return time.Now().AddDate(-yearsAgo, 0, -1).Format("2006-01-02") }
	const tracking, lastUsed, invalidSince = "kube-apiserver-legacy-service-account-token-tracking", "kubernetes.io/legacy-token-last-used", "kubernetes.io/legacy-token-invalid-since"
	c.create("configmaps", &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: tracking}, Data: map[string]string{"since": day(3)}})
	account := &core.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "robot"}}
	for _, name := range []string{"unused", "invalid", "mounted", "used"} { // "own" was created by a user
		account.Secrets = append(account.Secrets, core.ObjectReference{Name: name})
	}
	uid := c.create("serviceaccounts", account).UID()
	secret := func(name string, labels map[string]string) *resources.Object {
		return c.put("secrets", &core.Secret{Type: core.SecretTypeServiceAccountToken, Data: map[string][]byte{"token": []byte("t")}, ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name, UID: types.UID("uid of " + name), Labels: labels, CreationTimestamp: metav1.NewTime(time.Now().AddDate(-4, 0, 0)),
			Annotations: map[string]string{core.ServiceAccountNameKey: "robot", core.ServiceAccountUIDKey: uid}}})
	}
	c.put("pods", &core.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}, Spec: core.PodSpec{
		Volumes: []core.Volume{{Name: "v", VolumeSource: core.VolumeSource{Secret: &core.SecretVolumeSource{SecretName: "mounted"}}}}}})
	kept := []*resources.Object{secret("mounted", nil), secret("used", map[string]string{lastUsed: day(0)}), secret("own", nil)}
	unused := secret("unused", map[string]string{lastUsed: day(1)})
	invalid := secret("invalid", map[string]string{invalidSince: day(1)})
	c.change = append(c.change, func(o *controllers.Config) { o.Enabled = []string{controllers.LegacyTokenCleaner} })
	c.start()
	c.gone(invalid)
	c.until("the mark", unused.Key, func(o *resources.Object) bool { return o.Labels[invalidSince] != "" })
	for _, o := range kept {
		if now := c.get(o.Key); now == nil || now.Revision != o.Revision {
			t.Errorf("%s was changed", o.Key)
		}
	}
}
