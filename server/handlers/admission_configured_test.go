package handlers_test

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/server"
)

// configured returns a server with additional plugins and with sections of their configuration by name; a name that ends in .yaml is that of a
// file.
func configured(t testing.TB, sections map[string]string, enable ...string) *api {
	t.Helper()
	return newAPIWith(t, nil, func(c *server.Config) {
		var err error
		if c.AdmissionConfiguration, err = admission.ReadConfiguration(admissionFile(t, sections), enable); err != nil {
			t.Fatal(err)
		}
		c.EnableAdmissionPlugins = enable
	})
}

// admissionFile writes an AdmissionConfiguration.
func admissionFile(t testing.TB, sections map[string]string) string {
	t.Helper()
	written := "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
	for plugin, section := range sections {
		if !strings.Contains(section, "\n") && strings.HasSuffix(section, ".yaml") {
			written += fmt.Sprintf("- {name: %s, path: %s}\n", plugin, section)
			continue
		}
		written += fmt.Sprintf("- {name: %s, configuration: %s}\n", plugin, section)
	}
	return inFile(t, written)
}

func inFile(t testing.TB, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "written.yaml")
	if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// kubeconfigFor returns a kubeconfig for a server, with a token.
func kubeconfigFor(t testing.TB, s *httptest.Server, user, token string) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: pemOf(s)}
	c.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: token}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: user}
	c.CurrentContext = "x"
	name := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, name); err != nil {
		t.Fatal(err)
	}
	return name
}

const podsOfTest = "POST /api/v1/namespaces/test/pods"

func podOf(name, spec string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s"containers":[{"name":"c","image":"i"}]}}`, name, spec)
}

// A plugin applies its section of the configuration, inline or in a separate file.
func TestConfiguredPlugins(t *testing.T) {
	selectors := inFile(t, "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: 'a=b'}\n")
	a := configured(t, map[string]string{
		"PodSecurity": `{apiVersion: pod-security.admission.config.k8s.io/v1, kind: PodSecurityConfiguration,
    defaults: {enforce: baseline, enforce-version: latest}, exemptions: {namespaces: [default]}}`,
		"ResourceQuota":   `{apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: [{resource: configmaps, matchContains: [configmaps]}]}`,
		"EventRateLimit":  `{apiVersion: eventratelimit.admission.k8s.io/v1alpha1, kind: Configuration, limits: [{type: Namespace, qps: 1, burst: 2}]}`,
		"PodNodeSelector": selectors,
		"PodTolerationRestriction": `{apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1, kind: Configuration,
    default: [{key: k, operator: Exists}]}`,
	}, "EventRateLimit", "PodNodeSelector", "PodTolerationRestriction")
	event := exchange{do: "POST /api/v1/namespaces/test/events", code: 201,
		body: `{"metadata":{"generateName":"e-"},"involvedObject":{"namespace":"test"},"type":"Normal"}`}
	tooMany := event
	tooMany.code, tooMany.says = 429, says{"reason": "TooManyRequests"}
	a.run(
		exchange{shows: "PodSecurity", do: podsOfTest, body: podOf("a", `"hostNetwork":true,`), code: 403,
			says: says{"message": `pods "a" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)`}},
		exchange{shows: "PodSecurity: an exemption", do: "POST /api/v1/namespaces/default/pods", body: podOf("a", `"hostNetwork":true,`), code: 201},
		exchange{shows: "PodNodeSelector, PodTolerationRestriction", do: podsOfTest, body: podOf("b", ""), code: 201,
			says: says{"spec.nodeSelector.a": "b", "spec.tolerations.#.key": `["node.kubernetes.io/not-ready","node.kubernetes.io/unreachable","k"]`}},
		exchange{shows: "ResourceQuota", do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"s"}}`, code: 403,
			says: says{"message": `configmaps "s" is forbidden: insufficient quota to consume: configmaps,count/configmaps`}},
		event, event, tooMany)
}

// The optional plugins work as in kube-apiserver when they are enabled.
func TestEnabledPlugins(t *testing.T) {
	for plugin, c := range map[string]struct {
		before []exchange
		then   exchange
		off    []string // plugins with the same effect
	}{
		"AlwaysAdmit": {then: exchange{do: podsOfTest, body: podOf("a", ""), code: 201}},
		"AlwaysPullImages": {then: exchange{do: podsOfTest, body: podOf("a", ""), code: 201,
			says: says{"spec.containers.0.imagePullPolicy": "Always"}}},
		"ExtendedResourceToleration": {then: exchange{do: podsOfTest, code: 201,
			body: `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i","resources":{"limits":{"example.com/gpu":"1"}}}]}}`,
			says: says{"spec.tolerations.#.key": `["node.kubernetes.io/not-ready","node.kubernetes.io/unreachable","example.com/gpu"]`}}},
		"LimitPodHardAntiAffinityTopology": {then: exchange{do: podsOfTest, code: 403,
			body: podOf("a", `"affinity":{"podAntiAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"zone"}]}},`),
			says: says{"message": "pods \"a\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone but only key kubernetes.io/hostname is allowed"}}},
		"DenyServiceExternalIPs": {then: exchange{do: "POST /api/v1/namespaces/test/services", code: 403,
			body: `{"metadata":{"name":"s"},"spec":{"clusterIP":"None","externalIPs":["192.0.2.1"],"ports":[{"port":1}]}}`,
			says: says{"message": `services "s" is forbidden: Use of external IPs is denied by admission control`}}},
		"NamespaceAutoProvision": {
			before: []exchange{{do: "POST /api/v1/namespaces/new/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201}},
			then:   exchange{do: "GET /api/v1/namespaces/new", code: 200, says: says{"status.phase": "Active"}}},
		"NamespaceExists": {off: []string{"NamespaceLifecycle"}, then: exchange{do: "POST /api/v1/namespaces/none/configmaps", body: `{"metadata":{"name":"a"}}`, code: 404,
			says: says{"message": `namespaces "none" not found`}}},
		"PodNodeSelector": {
			before: []exchange{{do: "PATCH /api/v1/namespaces/test", header: asMergePatch, code: 200,
				body: `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"a=b"}}}`}},
			then: exchange{do: podsOfTest, body: podOf("a", `"nodeSelector":{"a":"c"},`), code: 403,
				says: says{"message": `pods "a" is forbidden: pod node label selector conflicts with its namespace node label selector`}}},
		"PodTolerationRestriction": {
			before: []exchange{{do: "PATCH /api/v1/namespaces/test", header: asMergePatch, code: 200,
				body: `{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/tolerationsWhitelist":"[{\"key\":\"k\",\"operator\":\"Exists\"}]"}}}`}},
			then: exchange{do: podsOfTest, body: podOf("a", `"tolerations":[{"key":"other","operator":"Exists"}],`), code: 500,
				says: says{"message": "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace whitelist"}}},
	} {
		t.Run(plugin, func(t *testing.T) {
			t.Parallel()
			a := newAPIWith(t, nil, func(config *server.Config) {
				config.EnableAdmissionPlugins = []string{plugin}
				config.DisableAdmissionPlugins = append(config.DisableAdmissionPlugins, c.off...)
			})
			a.run(append(c.before, c.then)...)
		})
	}
}

// OwnerReferencesPermissionEnforcement requires the right to the owner's finalizers, by the resource of the owner's kind.
func TestOwnerReferencesPermissionEnforcement(t *testing.T) {
	decide := func(context.Context, authorizer.Attributes) (authorizer.Decision, string, error) {
		return authorizer.DecisionAllow, "", nil
	}
	a := newAPIWith(t, nil, func(c *server.Config) {
		c.EnableAdmissionPlugins = []string{"OwnerReferencesPermissionEnforcement"}
		c.Authorizer = authorizer.AuthorizerFunc(func(ctx context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
			return decide(ctx, at)
		})
	})
	may := "delete configmaps/"
	var asked []string
	decide = func(_ context.Context, at authorizer.Attributes) (authorizer.Decision, string, error) {
		does := at.GetVerb() + " " + at.GetResource() + "/" + at.GetSubresource()
		if at.GetUser().GetName() != "known" || does == may || does == "create configmaps/" || does == "patch configmaps/" {
			return authorizer.DecisionAllow, "", nil
		}
		asked = append(asked, does+" "+at.GetAPIGroup()+" "+at.GetNamespace()+"/"+at.GetName())
		return authorizer.DecisionNoOpinion, "no", nil
	}
	as := says{"Impersonate-User": "known", "Content-Type": "application/merge-patch+json"}
	owned := func(kind string) string {
		return fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"apps/v1","kind":%q,"name":"o","uid":"1","blockOwnerDeletion":true}]}}`, kind)
	}
	const maps = "/api/v1/namespaces/test/configmaps"
	a.run(exchange{do: "POST " + maps, body: `{"metadata":{"name":"a"}}`, code: 201},
		exchange{do: "PATCH " + maps + "/a", header: as, body: owned("ReplicaSet"), code: 403, says: says{
			"message": `configmaps "a" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no, <nil>`}})
	if want := "update */finalizers * /*,update replicasets/finalizers apps test/o"; strings.Join(asked, ",") != want {
		t.Errorf("asked %q, want %q", asked, want)
	}
	a.run(exchange{do: "PATCH " + maps + "/a", header: as, body: owned("Nothing"), code: 403, says: says{
		"message": `configmaps "a" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion apps/v1 Kind Nothing: no matches for kind "Nothing" in version "apps/v1"`}})
	may = "update replicasets/finalizers"
	a.run(exchange{do: "PATCH " + maps + "/a", header: as, body: owned("ReplicaSet"), code: 403, says: says{
		"message": `configmaps "a" is forbidden: cannot set an ownerRef on a resource you can't delete: no, <nil>`}})
}

// ImagePolicyWebhook asks the server in its kubeconfig about the images of Pods.
func TestImagePolicyWebhook(t *testing.T) {
	var reviews []gjson.Result
	images := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if r.Header.Get("Authorization") != "Bearer secret" || json.NewDecoder(r.Body).Decode(&review) != nil {
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
		written, _ := json.Marshal(review)
		reviews = append(reviews, gjson.ParseBytes(written))
		w.Header().Set("Content-Type", "application/json")
		review["status"] = map[string]any{"allowed": gjson.GetBytes(written, "spec.containers.0.image").Str == "good", "reason": "not that one"}
		_ = json.NewEncoder(w).Encode(review)
	}))
	t.Cleanup(images.Close)
	a := configured(t, map[string]string{"ImagePolicyWebhook": fmt.Sprintf(`{imagePolicy: {kubeConfigFile: %s, allowTTL: 30, denyTTL: 30, retryBackoff: 500, defaultAllow: false}}`,
		kubeconfigFor(t, images, "u", "secret"))}, "ImagePolicyWebhook")
	a.run(exchange{do: podsOfTest, body: podOf("a", ""), code: 403,
		says: says{"message": `pods "a" is forbidden: image policy webhook backend denied one or more images: not that one`}},
		exchange{do: podsOfTest, body: strings.Replace(podOf("a", ""), `"i"`, `"good"`, 1), code: 201})
	if len(reviews) != 2 || reviews[0].Get("spec.namespace").Str != "test" || reviews[0].Get("kind").Str != "ImageReview" {
		t.Errorf("asked %v", reviews)
	}
}

// Webhooks are called with the credentials in the plugin's kubeconfig.
func TestWebhookCredentials(t *testing.T) {
	v := newReviewer(t)
	host := strings.TrimPrefix(v.URL, "https://")
	section := fmt.Sprintf(`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %s}`, kubeconfigFor(t, v.Server, host, "secret"))
	a := configured(t, map[string]string{"ValidatingAdmissionWebhook": section})
	a.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", v.webhook("/v", ruleFor("", "v1", "configmaps"), ""))},
		exchange{do: "POST " + mutatingConfigurations, code: 201, body: webhooks("m", v.webhook("/m", ruleFor("", "v1", "configmaps"), ""))},
		exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201})
	got := map[string]string{}
	for _, asked := range v.take() {
		got[asked.path] = asked.header.Get("Authorization")
	}
	if len(got) != 2 || got["/v"] != "Bearer secret" || got["/m"] != "" {
		t.Errorf("credentials %q", got)
	}
}

// Credentials may be for hosts with a suffix, or for all, and may be a client certificate; those for the exact host come first.
func TestWebhookCredentialsBySuffix(t *testing.T) {
	v := newReviewer(t)
	certificate, key, err := cert.GenerateSelfSignedCertKey("caller", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, c := range r.TLS.PeerCertificates[:min(1, len(r.TLS.PeerCertificates))] {
			r.Header.Set("Authorization", c.Subject.CommonName)
		}
		v.ServeHTTP(w, r)
	}))
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	s.StartTLS()
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "https://")
	_, suffix, _ := strings.Cut(host, ".")
	all, some := &clientcmdapi.AuthInfo{Token: "all"}, &clientcmdapi.AuthInfo{Username: "some", Password: "secret"}
	exact := &clientcmdapi.AuthInfo{ClientCertificateData: certificate, ClientKeyData: key}
	for want, users := range map[string]map[string]*clientcmdapi.AuthInfo{
		"Bearer all":                     {"*": all, "*.example.com": some},
		"Basic " + encode("some:secret"): {"*": all, "*." + suffix: some},
		"caller@":                        {"*": all, "*." + suffix: some, host: exact},
		"":                               {"*.example.com": some},
	} {
		file := filepath.Join(t.TempDir(), "kubeconfig")
		if err := clientcmd.WriteToFile(clientcmdapi.Config{AuthInfos: users}, file); err != nil {
			t.Fatal(err)
		}
		a := configured(t, map[string]string{"ValidatingAdmissionWebhook": fmt.Sprintf(
			`{apiVersion: apiserver.config.k8s.io/v1, kind: WebhookAdmissionConfiguration, kubeConfigFile: %s}`, file)})
		hook := strings.NewReplacer(v.URL, s.URL, v.bundle(), base64.StdEncoding.EncodeToString(pemOf(s))).Replace(v.webhook("/v", ruleFor("", "v1", "configmaps"), ""))
		a.run(exchange{do: "POST " + validatingConfigurations, code: 201, body: webhooks("v", hook)},
			exchange{do: "POST /api/v1/namespaces/test/configmaps", body: `{"metadata":{"name":"a"}}`, code: 201})
		asked := v.take()
		if len(asked) != 1 || !strings.HasPrefix(asked[0].header.Get("Authorization"), want) || want == "" && asked[0].header.Get("Authorization") != "" {
			t.Errorf("%d calls, want one with %q", len(asked), want)
		}
	}
}

func encode(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
