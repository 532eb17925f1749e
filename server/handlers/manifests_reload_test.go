package handlers_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// manifestMetrics are the metrics about the manifests of one plugin.
type manifestMetrics struct {
	taken, refused string // the value of the counter; empty: nothing was counted
	inForce        string // the hash of the manifests
}

// manifests returns the metrics about the manifests of a plugin.
func (a *api) manifests(plugin string) (m manifestMetrics) {
	a.Helper()
	for line := range strings.Lines(a.send(exchange{do: "GET /metrics"}).Body.String()) {
		name, labels, _ := strings.Cut(strings.TrimPrefix(line, "apiserver_manifest_admission_config_controller_"), "{")
		labels, value, _ := strings.Cut(labels, "} ")
		if !strings.Contains(labels, `plugin="`+plugin+`"`) {
			continue
		}
		value = strings.TrimSpace(value)
		switch {
		case name == "automatic_reloads_total" && strings.Contains(labels, `status="success"`):
			m.taken = value
		case name == "automatic_reloads_total" && strings.Contains(labels, `status="failure"`):
			m.refused = value
		case name == "last_config_info" && strings.Contains(labels, "apiserver_id_hash="):
			_, m.inForce, _ = strings.Cut(labels, `hash="sha256:`) // of the server
			_, m.inForce, _ = strings.Cut(m.inForce, `hash=`)
		}
	}
	return m
}

// Changed manifests of each plugin are in force when they are valid, in YAML or JSON, alone or in a List. Until then the former ones are. Both results
// are counted, and the metrics name the manifests in force.
func TestManifestsAreReadAgain(t *testing.T) {
	v := newReviewer(t)
	v.answer("/no", refuses)
	const maps, deny = "/api/v1/namespaces/test/configmaps?dryRun=All", `,"validationActions":["Deny"]`
	const labelled, never = `"reinvocationPolicy":"Never","mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{labels: {'by': 'manifest'}}}"}}]`, `"validations":[{"expression":"false"}]`
	rules := ruleFor("", "v1", "configmaps")
	for plugin, c := range map[string]struct {
		objects [][2]string // kinds and objects that have an effect on every ConfigMap
		broken  []string
		effect  func(code int, body string) bool
	}{
		"ValidatingAdmissionPolicy": {
			[][2]string{{"ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", never)}, {"ValidatingAdmissionPolicyBinding", binding("b.static.k8s.io", "p.static.k8s.io", deny)}},
			[]string{static(t, "ValidatingAdmissionPolicyBinding", binding("b.static.k8s.io", "p.static.k8s.io", deny)),
				static(t, "ValidatingAdmissionPolicy", policy("p.static.k8s.io", "", "configmaps", `"validations":[{"expression":"no("}]`))},
			func(code int, _ string) bool { return code == http.StatusUnprocessableEntity },
		},
		"MutatingAdmissionPolicy": {
			[][2]string{{"MutatingAdmissionPolicy", policy("m.static.k8s.io", "", "configmaps", labelled)}, {"MutatingAdmissionPolicyBinding", binding("b.static.k8s.io", "m.static.k8s.io", "")}},
			[]string{"kind: nonsense", static(t, "MutatingAdmissionPolicy", policy("m.static.k8s.io", "", "configmaps", strings.Replace(labelled, "Object{", "no(", 1)))},
			func(_ int, body string) bool { return gjson.Get(body, "metadata.labels.by").Str == "manifest" },
		},
		"ValidatingAdmissionWebhook": {
			[][2]string{{"ValidatingWebhookConfiguration", webhooks("v.static.k8s.io", v.webhook("/no", rules, ""))}},
			[]string{static(t, "ValidatingWebhookConfiguration", webhooks("v", v.webhook("/yes", rules, ""))), "{"},
			func(code int, _ string) bool { return code == http.StatusBadRequest },
		},
		"MutatingAdmissionWebhook": {
			[][2]string{{"MutatingWebhookConfiguration", webhooks("m.static.k8s.io", v.webhook("/no", rules, ""))}},
			[]string{static(t, "MutatingWebhookConfiguration", strings.Replace(webhooks("m.static.k8s.io", v.webhook("/yes", rules, "")), `"sideEffects"`, `"effects"`, 1))},
			func(code int, _ string) bool { return code == http.StatusBadRequest },
		},
	} {
		t.Run(plugin, func(t *testing.T) {
			var documents, items []string
			for _, o := range c.objects {
				documents = append(documents, static(t, o[0], o[1]))
				items = append(items, strings.Replace(o[1], "{", fmt.Sprintf(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":%q,`, o[0]), 1))
			}
			sections, dirs := manifestsOf(t, map[string]string{plugin: strings.Join(documents, "")})
			a := configured(t, sections)
			before := a.manifests(plugin)
			if before.taken == "" || before.inForce == "" {
				t.Fatalf("of the manifests of the start, %+v is counted", before)
			}
			applies := func() bool {
				w := a.send(exchange{do: "POST " + maps, body: `{"metadata":{"name":"a"}}`})
				return c.effect(w.Code, w.Body.String())
			}
			for _, broken := range c.broken {
				put(t, dirs[plugin], broken)
				was := a.manifests(plugin)
				followed(t, "the failure", func() bool { return a.manifests(plugin).refused != before.refused })
				if after := a.manifests(plugin); after.taken != was.taken || after.inForce != was.inForce || !applies() {
					t.Errorf("after %s: %+v, before %+v, or it is not in force", broken, after, was)
				}
				before.refused = a.manifests(plugin).refused
			}
			put(t, dirs[plugin], "")
			followed(t, "no manifests", func() bool { return !applies() })
			putFile(t, filepath.Join(dirs[plugin], "all.json"), `{"apiVersion":"v1","kind":"List","items":[`+strings.Join(items, ",")+`]}`)
			followed(t, "a List in JSON", applies)
			followed(t, "its metrics", func() bool {
				after := a.manifests(plugin)
				return after.taken != before.taken && after.inForce != "" && after.inForce != before.inForce
			})
		})
	}
}
