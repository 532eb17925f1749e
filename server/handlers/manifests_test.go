package handlers_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/servertest"
)

// manifestsOf returns sections for the four plugins that read objects from directories, and new directories with one file each.
func manifestsOf(t *testing.T, content map[string]string) (sections, dirs map[string]string) {
	t.Helper()
	sections, dirs = map[string]string{}, map[string]string{}
	for plugin, objects := range content {
		dirs[plugin] = t.TempDir()
		put(t, dirs[plugin], objects)
		kind := plugin + "Configuration"
		if strings.HasSuffix(plugin, "Webhook") {
			kind = "WebhookAdmissionConfiguration"
		}
		sections[plugin] = fmt.Sprintf("{apiVersion: apiserver.config.k8s.io/v1, kind: %s, staticManifestsDir: %s}", kind, dirs[plugin])
	}
	return sections, dirs
}

// put replaces the file of a directory atomically.
func put(t *testing.T, dir, objects string) {
	t.Helper()
	putFile(t, filepath.Join(dir, "all.yaml"), objects)
}

func putFile(t *testing.T, file, objects string) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte(objects), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, file); err != nil {
		t.Fatal(err)
	}
}

// static converts a request's object to a manifest, with a name reserved for manifests.
func static(t *testing.T, kind, object string) string {
	t.Helper()
	written, err := yaml.JSONToYAML([]byte(strings.Replace(object, "{", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,`, kind), 1)))
	if err != nil {
		t.Fatal(err)
	}
	return string(written) + "---\n"
}

// Webhooks and policies from manifests run before stored ones, and also apply to webhook configurations and policies, as stored ones do not. They
// are reloaded with their files.
func TestStaticManifests(t *testing.T) {
	v := newReviewer(t)
	const maps = "/api/v1/namespaces/test/configmaps"
	policies := func(least int) string {
		return static(t, "ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", fmt.Sprintf(`"validations":[{"expression":"size(object.data.a) > %d"}]`, least))) +
			static(t, "ValidatingAdmissionPolicyBinding", binding("b.static.k8s.io", "p.static.k8s.io", `,"validationActions":["Deny"]`))
	}
	sections, dirs := manifestsOf(t, map[string]string{
		"ValidatingAdmissionPolicy": policies(1),
		"MutatingAdmissionPolicy": static(t, "MutatingAdmissionPolicy", policy("m.static.k8s.io", "", "configmaps", `"reinvocationPolicy":"Never","mutations":[
			{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'by': 'manifest'}}}"}}]`)) +
			static(t, "MutatingAdmissionPolicyBinding", binding("b.static.k8s.io", "m.static.k8s.io", "")),
		"ValidatingAdmissionWebhook": static(t, "ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", v.webhook("/v", everything, ""))),
		"MutatingAdmissionWebhook":   static(t, "MutatingWebhookConfiguration", webhooks("m.static.k8s.io", v.webhook("/m", ruleFor("", "v1", "configmaps"), ""))),
	})
	a := configured(t, sections)
	v.take()
	a.run(exchange{do: "POST " + maps, body: `{"metadata":{"name":"a"},"data":{"a":"long"}}`, code: 201, says: says{"metadata.labels.by": "manifest"}})
	if asked := v.take(); len(asked) != 2 || asked[0].path != "/m" || asked[1].path != "/v" || asked[0].request.Get("object.metadata.labels.by").Str != "manifest" {
		t.Errorf("asked %v", asked)
	}
	a.run(exchange{do: "POST " + maps, body: `{"metadata":{"name":"b"},"data":{"a":"s"}}`, code: 422,
		says: says{"message": `configmaps "b" is forbidden: ValidatingAdmissionPolicy 'p.static.k8s.io' with binding 'b.static.k8s.io' denied request: failed expression: size(object.data.a) > 1`}})
	v.answer("/v", refuses)
	v.take()
	a.run(exchange{shows: "a webhook of manifests is asked about configurations", do: "POST " + validatingConfigurations, body: webhooks("w", v.webhook("/w", everything, "")), code: 400},
		exchange{do: "POST " + validatingPolicies, body: policy("p", "", "configmaps", `"validations":[{"expression":"true"}]`), code: 400})
	v.wants(t, "configurations", "v CREATE admissionregistration.k8s.io/v1 validatingwebhookconfigurations ValidatingWebhookConfiguration /w new CreateOptions",
		"v CREATE admissionregistration.k8s.io/v1 validatingadmissionpolicies ValidatingAdmissionPolicy /p new CreateOptions")
	put(t, dirs["ValidatingAdmissionWebhook"], "")
	put(t, dirs["ValidatingAdmissionPolicy"], policies(4))
	refused := exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"c"},"data":{"a":"long"}}`}
	followed(t, "the files", func() bool {
		return strings.HasSuffix(gjson.GetBytes(a.send(refused).Body.Bytes(), "message").Str, "failed expression: size(object.data.a) > 4")
	})
	put(t, dirs["ValidatingAdmissionPolicy"], "kind: nonsense")
	put(t, dirs["MutatingAdmissionPolicy"], "")
	longer := exchange{do: "POST " + maps + "?dryRun=All", body: `{"metadata":{"name":"c"},"data":{"a":"longer"}}`}
	followed(t, "the files", func() bool {
		w := a.send(longer)
		return w.Code == http.StatusCreated && !gjson.GetBytes(w.Body.Bytes(), "metadata.labels.by").Exists()
	})
	refused.code = 422 // from the former contents of the file, which is invalid now
	a.run(refused, exchange{do: "POST " + validatingPolicies, body: policy("p.static.k8s.io", "", "configmaps", `"validations":[{"expression":"true"}]`), code: 422})
}

// followed waits until the server has noticed a change of files, of which it gets no notification.
func followed(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick, late := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: it was waited for in vain", what)
		}
	}
}

// A server does not start with unreadable manifests.
func TestRefusedManifests(t *testing.T) {
	const validations, never = `"validations":[{"expression":"true"}]`, `"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{}"}}]`
	valid := static(t, "ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", validations))
	hook := func(more string) string {
		return `{"name":"h.example.com","rules":` + everything + `,"sideEffects":"None","admissionReviewVersions":["v1"],` + more + `}`
	}
	good := hook(`"clientConfig":{"url":"https://localhost/"}`)
	for _, c := range []struct{ plugin, content, want string }{
		{"ValidatingAdmissionPolicy", static(t, "ValidatingAdmissionPolicy", policy("p", "", "configmaps", validations)), `must have a name ending with ".static.k8s.io"`},
		{"ValidatingAdmissionPolicy", static(t, "ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},`+validations)), "paramKind"},
		{"ValidatingAdmissionPolicy", static(t, "ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", `"validations":[{"expression":"no("}]`)), "Syntax error"},
		{"ValidatingAdmissionPolicy", static(t, "ConfigMap", `{"metadata":{"name":"a"}}`), "ConfigMap"},
		{"ValidatingAdmissionPolicy", valid + valid, `duplicate name "p.static.k8s.io" found in file`},
		{"ValidatingAdmissionPolicy", static(t, "ValidatingAdmissionPolicyBinding", binding("b.static.k8s.io", "p.static.k8s.io", `,"validationActions":["Deny"]`)),
			`binding "b.static.k8s.io" references policy "p.static.k8s.io" which does not exist in the manifest directory`},
		{"ValidatingAdmissionPolicy", valid + static(t, "ValidatingAdmissionPolicyBinding", binding("b.static.k8s.io", "p.static.k8s.io", `,"validationActions":["Deny"],"paramRef":{"name":"n","parameterNotFoundAction":"Deny"}`)),
			`binding "b.static.k8s.io": spec.paramRef is not supported for static manifests`},
		{"MutatingAdmissionPolicy", valid, "unsupported resource type *v1.ValidatingAdmissionPolicy"},
		{"MutatingAdmissionPolicy", static(t, "MutatingAdmissionPolicy", policy("m.static.k8s.io", "", "configmaps", `"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},`+never)),
			`MutatingAdmissionPolicy "m.static.k8s.io": spec.paramKind is not supported for static manifests`},
		{"MutatingAdmissionPolicy", static(t, "MutatingAdmissionPolicy", policy("m.static.k8s.io", "", "configmaps", strings.Replace(never, "Object{}", "no(", 1))), "Syntax error"},
		{"MutatingAdmissionPolicy", static(t, "MutatingAdmissionPolicyBinding", binding("b.static.k8s.io", "m.static.k8s.io", "")), `references policy "m.static.k8s.io" which does not exist`},
		{"ValidatingAdmissionWebhook", "kind: nonsense", "apiVersion"},
		{"ValidatingAdmissionWebhook", static(t, "ValidatingWebhookConfiguration", webhooks("v", good)), `must have a name ending with ".static.k8s.io"`},
		{"ValidatingAdmissionWebhook", static(t, "ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", hook(`"clientConfig":{"service":{"namespace":"a","name":"b"}}`))),
			`clientConfig.service is not supported for static manifests; use clientConfig.url instead`},
		{"ValidatingAdmissionWebhook", static(t, "ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", hook(`"clientConfig":{"url":"http://localhost/"}`))), "https"},
		{"ValidatingAdmissionWebhook", static(t, "ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", hook(`"clientConfig":{"url":"https://localhost/"},"colour":"red"`))), `unknown field "webhooks[0].colour"`},
		{"MutatingAdmissionWebhook", static(t, "ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", good)), "unsupported resource type *v1.ValidatingWebhookConfiguration"},
		{"MutatingAdmissionWebhook", static(t, "MutatingWebhookConfiguration", webhooks("m.static.k8s.io", good)) + static(t, "MutatingWebhookConfiguration", webhooks("m.static.k8s.io", good)),
			`duplicate name "m.static.k8s.io" found in file`},
	} {
		sections, _ := manifestsOf(t, map[string]string{c.plugin: c.content})
		configuration, err := admission.ReadConfiguration(admissionFile(t, sections), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, config := servertest.New(t, nil)
		config.AdmissionConfiguration = configuration
		if _, err := server.New(config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s: %v, want %s", c.plugin, c.content, err, c.want)
		}
	}
}
