package harness

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	sigsyaml "sigs.k8s.io/yaml"
)

// Modules of e2e/peers/webhooks.
const (
	certManager = "github.com/cert-manager/cert-manager"
	gatekeeper  = "github.com/open-policy-agent/gatekeeper/v3"
	kyverno     = "github.com/kyverno/kyverno"
)

// kyvernoWebhooks are the files in which Kyverno lists, for its own tests, the webhooks that it registers for a policy: it has no manifest of them.
// Some have only the fields of a webhook that matter to the test.
var kyvernoWebhooks = []string{
	"webhooks/policy-wildcard-resource",
	"webhooks/double-wildcard",
	"webhooks/all-scale",
	"webhooks/policy-clusterpolicy-different-resource-group",
	"webhooks/policy-different-resource-group",
	"webhooks/dyn-op-validate-multiple",
	"webhooks/dyn-op-mutate-multiple",
	"webhooks/only-pod",
	"webhooks/pod-exec-subresource",
	"image-validating-policies/webhook-configuration/combined",
	"validating-policies/webhook-configuration/fine-grained-tests/match-conditions",
}

// PublishedWebhooks are the webhooks of a configuration that a project publishes.
type PublishedWebhooks struct {
	// Name is that of the configuration, except where a project has several with one name.
	Name string
	// Mutating or Validating has the webhooks, each with a name.
	Mutating   []admissionregistrationv1.MutatingWebhook
	Validating []admissionregistrationv1.ValidatingWebhook
}

// WebhookConfigurations returns the webhooks that cert-manager, Gatekeeper and Kyverno publish, and the definitions of cert-manager's types. The
// chart of cert-manager is rendered by helm, which Build has built.
func WebhookConfigurations(ctx context.Context) ([]PublishedWebhooks, []*apiextensionsv1.CustomResourceDefinition, error) {
	dirs, err := publishedModules(ctx, "webhooks")
	if err != nil {
		return nil, nil, err
	}
	definitions, err := definitionsBelow(filepath.Join(dirs[certManager], "deploy", "crds"))
	if err != nil {
		return nil, nil, fmt.Errorf("definitions of cert-manager: %w", err)
	}
	helm := exec.CommandContext(ctx, Binary("helm"), "template", "cert-manager", filepath.Join(dirs[certManager], "deploy", "charts", "cert-manager"),
		"--namespace", "cert-manager", "--show-only", "templates/webhook-mutating-webhook.yaml", "--show-only", "templates/webhook-validating-webhook.yaml")
	helm.Stderr = os.Stderr
	rendered, err := helm.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("the chart of cert-manager: %w", err)
	}
	all, err := webhooksIn(rendered, "")
	for _, place := range append([]string{filepath.Join(dirs[gatekeeper], "deploy", "gatekeeper.yaml")}, kyvernoWebhooks...) {
		name := ""
		if !filepath.IsAbs(place) {
			place, name = filepath.Join(dirs[kyverno], "test", "conformance", "chainsaw", place, "webhooks.yaml"), filepath.Base(place)
		}
		text, rerr := os.ReadFile(place)
		found, werr := webhooksIn(text, name)
		if err = errors.Join(err, rerr, werr); len(found) == 0 {
			err = errors.Join(err, fmt.Errorf("%s has no webhooks", place))
		}
		all = append(all, found...)
	}
	return all, definitions, err
}

// webhooksIn reads the configurations in a text, and fills in missing required fields; unnamed is the name of webhooks that have none, and a part of
// the names of their configurations.
func webhooksIn(text []byte, unnamed string) (all []PublishedWebhooks, err error) {
	for reader := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text))); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var mutating admissionregistrationv1.MutatingWebhookConfiguration
		var validating admissionregistrationv1.ValidatingWebhookConfiguration
		var found PublishedWebhooks
		switch {
		case bytes.Contains(document, []byte("kind: MutatingWebhookConfiguration")):
			err = sigsyaml.Unmarshal(document, &mutating)
			found = PublishedWebhooks{Name: mutating.Name, Mutating: mutating.Webhooks}
		case bytes.Contains(document, []byte("kind: ValidatingWebhookConfiguration")):
			err = sigsyaml.Unmarshal(document, &validating)
			found = PublishedWebhooks{Name: validating.Name, Validating: validating.Webhooks}
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		found.complete(unnamed)
		all = append(all, found)
	}
}

func (p *PublishedWebhooks) complete(unnamed string) {
	if unnamed != "" {
		p.Name += "-" + strings.ToLower(unnamed)
	}
	for i := range p.Mutating {
		w := &p.Mutating[i]
		completeWebhook(&w.Name, &w.AdmissionReviewVersions, &w.SideEffects, unnamed)
	}
	for i := range p.Validating {
		w := &p.Validating[i]
		completeWebhook(&w.Name, &w.AdmissionReviewVersions, &w.SideEffects, unnamed)
	}
}

func completeWebhook(name *string, versions *[]string, effects **admissionregistrationv1.SideEffectClass, unnamed string) {
	if *name == "" {
		*name = unnamed + ".kyverno.svc"
	}
	if len(*versions) == 0 {
		*versions = []string{"v1"}
	}
	if *effects == nil {
		*effects = ptr.To(admissionregistrationv1.SideEffectClassNone)
	}
}
