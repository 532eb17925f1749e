package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/e2e/harness"
	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// forceCommand measures the delay until a change of admission on one server is in force on another of the same database.
func forceCommand(o *options) *cobra.Command {
	var rounds int
	c := &cobra.Command{
		Use:   "force",
		Short: "Start two servers on one Postgres and measure how soon webhooks and policies that one of them was told of are in force on the other",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return force(cmd.Context(), *o, rounds, cmd.OutOrStdout())
		},
	}
	c.Flags().IntVar(&rounds, "rounds", 200, "how often each object is made and removed")
	return c
}

func force(ctx context.Context, o options, rounds int, out io.Writer) (err error) {
	o.Clients = []int{1}
	if err := errors.Join(o.checkProtocols(), harness.Build(ctx, "rowlock")); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "rowlock-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	postgres, err := pgtest.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, postgres.Stop()) }()
	var told, other *bench
	for name, b := range map[string]**bench{"told": &told, "other": &other} {
		server, err := startables()["rowlock-postgres"].start(ctx, filepath.Join(dir, name), postgres.URL())
		if err != nil {
			return err
		}
		defer server.Kill()
		config, err := clientcmd.BuildConfigFromFlags("", server.Kubeconfig)
		if err != nil {
			return err
		}
		*b = &bench{options: o, procs: server.PIDs(), server: &Server{Name: name}}
		if err := (*b).prepare(ctx, config); err != nil {
			return err
		}
		defer (*b).hangUp()
	}
	return forceRows(ctx, told.admin, other.admin, rounds, out)
}

// forceRows writes a row of the report for each sort of object.
func forceRows(ctx context.Context, told, other *client, rounds int, out io.Writer) error {
	fmt.Fprint(out, "| in force on the other server | made: p50, p99, longest | removed: p50, p99, longest |\n|---|---|---|\n")
	for _, sort := range forceSorts() {
		for _, o := range sort.before {
			if _, err := told.do(ctx, request{method: http.MethodPost, path: o.path, body: []byte(o.body)}); err != nil {
				return fmt.Errorf("%s: %w", o.path, err)
			}
		}
		var made, removed []time.Duration
		for range rounds {
			for _, change := range []struct {
				request
				refused bool
				took    *[]time.Duration
			}{
				{request{method: http.MethodPost, path: sort.path, body: []byte(sort.body)}, true, &made},
				{request{method: http.MethodDelete, path: sort.path + "/" + sort.name}, false, &removed},
			} {
				if _, err := told.do(ctx, change.request); err != nil {
					return fmt.Errorf("%s: %w", sort.path, err)
				}
				took, err := inForce(ctx, other, change.refused)
				if err != nil {
					return fmt.Errorf("%s: %w", sort.path, err)
				}
				*change.took = append(*change.took, took)
			}
		}
		fmt.Fprintf(out, "| %s | %s | %s |\n", sort.what, summary(made), summary(removed))
	}
	return nil
}

func summary(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("%s, %s, %s", milliseconds(percentile(took, 0.5)), milliseconds(percentile(took, 0.99)), milliseconds(took[len(took)-1]))
}

// inForce sends creates one after the other until one is refused, or, with refused unset, until none is. It returns the time of that request, from
// the first of them.
func inForce(ctx context.Context, c *client, refused bool) (time.Duration, error) {
	for began := time.Now(); ; {
		took := time.Since(began)
		_, err := c.do(ctx, request{method: http.MethodPost, path: configMapsPath + "?dryRun=All",
			body: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"generateName":"probe-"}}`)})
		is := isStatus(err, http.StatusUnprocessableEntity) || isStatus(err, http.StatusInternalServerError)
		if is == refused && (is || err == nil) {
			return took, nil
		}
		if err != nil && !is {
			return 0, err
		}
		if took > time.Minute {
			return 0, fmt.Errorf("not in force after %v: %w", took, err)
		}
		// The server has to learn of the change meanwhile, on the same processors.
		if err := pause(ctx, time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// forceSort is an object that makes the server refuse every create of a ConfigMap while it exists.
type forceSort struct {
	what string
	registered
	// before are its prerequisites.
	before []registered
}

func forceSorts() []forceSort {
	const rules = `[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]`
	// No server listens there, and the failure policy is to refuse.
	webhook := func(kind string) registered {
		return registered{registrationPath + kind + "webhookconfigurations", "force", `{"metadata":{"name":"force"},"webhooks":[{"name":"force.bench.example.com",
			"clientConfig":{"url":"https://127.0.0.1:1/"},"rules":` + rules + `,"sideEffects":"None","admissionReviewVersions":["v1"]}]}`}
	}
	policy := func(name string) registered {
		return registered{registrationPath + "validatingadmissionpolicies", name, fmt.Sprintf(`{"metadata":{"name":%q},"spec":{
			"matchConstraints":{"resourceRules":%s},"validations":[{"expression":"false"}]}}`, name, rules)}
	}
	binding := func(name string) registered {
		return registered{registrationPath + "validatingadmissionpolicybindings", name,
			fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name)}
	}
	return []forceSort{
		{"MutatingWebhookConfiguration", webhook("mutating"), nil},
		{"ValidatingWebhookConfiguration", webhook("validating"), nil},
		{"ValidatingAdmissionPolicy", policy("policy"), []registered{binding("policy")}},
		{"ValidatingAdmissionPolicyBinding", binding("binding"), []registered{policy("binding")}},
	}
}
