package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admission/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

// admissionCommand measures what webhooks and policies cost a create.
func admissionCommand(o *options) *cobra.Command {
	var names []string
	var writes int
	c := &cobra.Command{
		Use:   "admission",
		Short: "Start servers one after the other and measure what a create costs them with webhooks and policies, by 16 clients",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Clients = []int{customClients}
			if err := o.checkProtocols(); err != nil {
				return err
			}
			fmt.Fprint(cmd.OutOrStdout(), "| server | create ConfigMap | with a mutating and a validating webhook | under ten validating policies |\n|---|---|---|---|\n")
			for _, name := range names {
				server, ok := startables()[name]
				if !ok || server.postgres {
					return fmt.Errorf("--servers %q: rowlock, etcd or kine can be measured", name)
				}
				if err := harness.Build(cmd.Context(), server.binaries...); err != nil {
					return err
				}
				d := &definitions{bench: &bench{options: *o, server: &Server{Name: name}}, startable: server, out: cmd.OutOrStdout()}
				if err := d.admission(cmd.Context(), writes); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
			return nil
		},
	}
	c.Flags().StringSliceVar(&names, "servers", []string{"rowlock", "etcd"}, "rowlock, or the stores that kube-apiserver is to use: etcd, kine")
	c.Flags().IntVar(&writes, "writes", 4000, "requests of each sort")
	return c
}

// registrationPath is the path of the API group of webhooks and policies.
const registrationPath = "/apis/admissionregistration.k8s.io/v1/"

// policies is the number of policies.
const policies = 10

// admission starts a server, measures creates, and stops it. This process serves the webhooks, so that their time is not the server's.
func (d *definitions) admission(ctx context.Context, writes int) (err error) {
	if d.dir, err = os.MkdirTemp("", "rowlock-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(d.dir)
	if err := d.start(ctx); err != nil {
		return err
	}
	defer d.running.Kill()
	hooks := httptest.NewTLSServer(http.HandlerFunc(review))
	defer hooks.Close()

	plain, err := d.creates(ctx, "plain", writes)
	if err != nil {
		return err
	}
	configured := webhookObjects(hooks)
	if err := d.post(ctx, configured); err != nil {
		return err
	}
	asked, err := d.creates(ctx, "hook", writes)
	if err != nil {
		return err
	}
	for _, o := range configured {
		if _, err := d.admin.do(ctx, request{method: http.MethodDelete, path: o.path + "/" + o.name}); err != nil {
			return err
		}
	}
	if err := d.post(ctx, policyObjects()); err != nil {
		return err
	}
	judged, err := d.creates(ctx, "policy", writes)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(d.out, "| %s | %s | %s | %s |\n", d.running.Name, plain, asked, judged)
	return err
}

// creates returns the server's CPU time for a create. It first waits until the webhooks or policies are in force: they refuse a ConfigMap with the
// label "refused".
func (d *definitions) creates(ctx context.Context, kind string, writes int) (time.Duration, error) {
	body := func(name, label string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"labels":{"kind":%q}},"data":{"a":"b","c":"d"}}`, name, label)
	}
	for began := time.Now(); kind != "plain"; {
		_, err := d.admin.do(ctx, request{method: http.MethodPost, path: configMapsPath + "?dryRun=All", body: body("probe", "refused")})
		if err != nil && (isStatus(err, http.StatusForbidden) || isStatus(err, http.StatusUnprocessableEntity) || isStatus(err, http.StatusBadRequest)) {
			break
		}
		if time.Since(began) > time.Minute {
			return 0, fmt.Errorf("%s: not in force: %w", kind, err)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return 0, err
		}
	}
	cpu, err := d.together(ctx, writes, func(i int64) request {
		return request{method: http.MethodPost, path: configMapsPath, body: body(fmt.Sprint(kind, "-", i), kind)}
	})
	return cpu.Round(time.Microsecond), err
}

// registered is an object of admissionregistration.k8s.io.
type registered struct{ path, name, body string }

func (d *definitions) post(ctx context.Context, objects []registered) error {
	for _, o := range objects {
		if _, err := d.admin.do(ctx, request{method: http.MethodPost, path: o.path, body: []byte(o.body)}); err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
	}
	return nil
}

// webhookObjects are a mutating and a validating webhook for ConfigMaps.
func webhookObjects(hooks *httptest.Server) []registered {
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: hooks.Certificate().Raw}))
	var all []registered
	for _, kind := range []string{"mutating", "validating"} {
		path := registrationPath + kind + "webhookconfigurations"
		all = append(all, registered{path, "bench", fmt.Sprintf(`{"metadata":{"name":"bench"},"webhooks":[{"name":"%s.bench.example.com","clientConfig":{"url":"%s/%s","caBundle":%q},
			"rules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}],"sideEffects":"None","admissionReviewVersions":["v1"]}]}`,
			kind, hooks.URL, kind, bundle)})
	}
	return all
}

// policyObjects are validating policies for ConfigMaps, with their bindings.
func policyObjects() []registered {
	var all []registered
	for i := range policies {
		name := fmt.Sprint("bench-", i)
		all = append(all, registered{registrationPath + "validatingadmissionpolicies", name, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"failurePolicy":"Fail",
			"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},
			"variables":[{"name":"kind","expression":"object.metadata.labels['kind']"}],
			"validations":[{"expression":"variables.kind != 'refused'"},{"expression":"object.data.all(k, size(object.data[k]) < 10 + %d)"}]}}`, name, i)},
			registered{registrationPath + "validatingadmissionpolicybindings", name, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name)})
	}
	return all
}

// review answers for both webhooks: the mutating one adds a label.
func review(w http.ResponseWriter, r *http.Request) {
	var asked admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	var object struct {
		Metadata struct{ Labels map[string]string }
	}
	if err := json.Unmarshal(asked.Request.Object.Raw, &object); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asked.Response = &admissionv1.AdmissionResponse{UID: asked.Request.UID, Allowed: object.Metadata.Labels["kind"] != "refused"}
	if asked.Response.Allowed && r.URL.Path == "/mutating" {
		patch := admissionv1.PatchTypeJSONPatch
		asked.Response.PatchType, asked.Response.Patch = &patch, []byte(`[{"op":"add","path":"/metadata/labels/seen","value":"yes"}]`)
	}
	asked.Request = nil
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(asked) // a server that has gone needs no answer
}
