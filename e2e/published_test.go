package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestPublished applies the published definitions of eleven projects, and sends the objects that they publish with them: unchanged, changed at
// random, and applied twice. With E2E_PEER=kube-apiserver (`make compare`) it compares all answers with kube-apiserver's.
func TestPublished(t *testing.T) {
	servers := startSectionServers(t, "")
	kinds := map[schema.GroupVersionKind]publishedKind{}
	for _, s := range servers {
		maps.Copy(kinds, applyPublished(t, s))
	}
	known := func(kind schema.GroupVersionKind) bool { _, ok := kinds[kind]; return ok }
	examples, err := harness.Examples(t.Context(), known)
	if err != nil {
		t.Fatal(err)
	}
	if len(examples) < 300 {
		t.Errorf("there are but %d examples", len(examples))
	}
	codes := map[int]int{}
	for i, e := range examples {
		kind := kinds[e.Kind()]
		steps := kind.steps(t, e, rand.New(rand.NewPCG(uint64(i), 0)))
		if database.url != "" {
			steps = steps[:2] // the other steps do not depend on the database
		}
		var first []string
		for n, s := range servers {
			answers := make([]string, 0, len(steps))
			for _, q := range steps {
				a := s.send(t, q, nil)
				if n == 0 {
					codes[a.code]++
					kind.check(t, e, q, a)
				}
				answers = append(answers, inOrder(a.comparable(values{}), a.code))
			}
			if n == 0 {
				first = answers
				continue
			}
			for i, q := range steps {
				if diff := cmp.Diff(answers[i], first[i]); diff != "" {
					t.Errorf("%s: %s %s: %s differs from %s (-want +got):\n%s", e.File, q.Send, q.Note, servers[0].name, s.name, diff)
				}
			}
		}
	}
	t.Logf("%d examples of %d kinds: %v", len(examples), len(kinds), codes)
}

// untypedPatch begins kube-apiserver's refusal, by a 500, of an applied object that does not fit its schema.
const untypedPatch = `"failed to create typed patch object (`

// inOrder is an answer whose words are sorted when it is a refusal: upstream's validators walk maps in random order. Of several reasons why an
// applied object does not fit they name one, or all, at random.
func inOrder(text string, code int) string {
	if code < http.StatusBadRequest {
		return text
	}
	if code == http.StatusInternalServerError && strings.Contains(text, untypedPatch) {
		text = text[:strings.Index(text, untypedPatch)+len(untypedPatch)]
	}
	words := strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" \n\t,[]{}", c) })
	slices.Sort(words)
	return strings.Join(words, "\n")
}

// publishedKind is a kind of a published definition in one version.
type publishedKind struct {
	path      string // of the collection, in the namespace default
	converted bool   // by a webhook that does not exist
	kind      string
}

// applyPublished applies the published definitions with kubectl, twice: the second time changes nothing.
func applyPublished(t *testing.T, s *sectionServer) map[schema.GroupVersionKind]publishedKind {
	t.Helper()
	places, err := harness.PublishedPlaces(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	k := kubectl{}
	there := []string{"--kubeconfig", os.DevNull, "--server", s.url, "--token", harness.PeerToken, "--insecure-skip-tls-verify"}
	apply := append([]string{"apply", "--server-side", "-o", "json"}, there...)
	for _, place := range places {
		files := []string{place}
		if !strings.HasSuffix(place, ".yaml") {
			if files, err = filepath.Glob(filepath.Join(place, "*.yaml")); err != nil {
				t.Fatal(err)
			}
		}
		for _, file := range files {
			if filepath.Base(file) != "kustomization.yaml" {
				apply = append(apply, "-f", file)
			}
		}
	}
	var applied [2]struct {
		Items []*apiextensionsv1.CustomResourceDefinition
	}
	for i := range applied {
		if err := json.Unmarshal([]byte(k.run(t, apply...)), &applied[i]); err != nil {
			t.Fatal(err)
		}
		if s.reference { // its own later changes are no effect of the second apply
			k.run(t, append([]string{"wait", "--for=condition=Established", "crd", "--all"}, there...)...)
		}
	}
	kinds := map[schema.GroupVersionKind]publishedKind{}
	for i, crd := range applied[1].Items {
		if before := applied[0].Items[i]; !s.reference && before.ResourceVersion != crd.ResourceVersion {
			t.Errorf("%s: applied again it went from %s to %s", crd.Name, before.ResourceVersion, crd.ResourceVersion)
		}
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			path := "/apis/" + crd.Spec.Group + "/" + v.Name + "/"
			if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
				path += "namespaces/default/"
			}
			gvk := schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}
			kinds[gvk] = publishedKind{path: path + crd.Spec.Names.Plural, kind: crd.Spec.Names.Kind,
				converted: !v.Storage && crd.Spec.Conversion != nil && crd.Spec.Conversion.Strategy == apiextensionsv1.WebhookConverter}
		}
	}
	return kinds
}

// steps are the requests for an example.
func (k publishedKind) steps(t *testing.T, e *harness.Example, random *rand.Rand) []step {
	t.Helper()
	object := runtime.DeepCopyJSON(normalized(t, e.Object))
	metadata, _ := object["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	delete(metadata, "namespace")
	name, _ := metadata["name"].(string)
	create := "POST " + k.path + "?dryRun=All&fieldValidation="
	steps := []step{{Send: create + "Strict", Body: object}, {Send: create + "Warn", Body: object}}
	changes := 1
	if os.Getenv("E2E_PEER") != "" {
		changes = 3
	}
	for range changes {
		changed := runtime.DeepCopyJSON(object)
		note := mutate(changed, random)
		steps = append(steps, step{Note: note, Send: create + "Warn", Body: changed})
	}
	if name == "" {
		return steps
	}
	apply := step{Send: "PATCH " + k.path + "/" + name + "?force=true&fieldManager=first", Body: object,
		Headers: map[string]string{"Content-Type": "application/apply-patch+yaml"}}
	again := apply
	changed := runtime.DeepCopyJSON(object)
	again.Note, again.Body = mutate(changed, random), changed
	again.Send = strings.Replace(apply.Send, "first", "second", 1)
	return append(steps, apply, apply, again, step{Send: "GET " + k.path + "/" + name}, step{Send: "DELETE " + k.path + "/" + name})
}

// normalized is an object after a round trip through JSON.
func normalized(t *testing.T, object map[string]any) map[string]any {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var read map[string]any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return read
}

// mutate changes something below the spec of an object, and describes it.
func mutate(object map[string]any, random *rand.Rand) string {
	at, path := any(object), ""
	for {
		var set func(any)
		var remove func()
		var next any
		switch parent := at.(type) {
		case map[string]any:
			keys := slices.DeleteFunc(slices.Sorted(maps.Keys(parent)), func(key string) bool {
				return path == "" && (key == "apiVersion" || key == "kind" || key == "metadata" || key == "status")
			})
			if len(keys) == 0 {
				parent["unknown"] = path
				return path + ".unknown"
			}
			key := keys[random.IntN(len(keys))]
			path += "." + key
			set, remove, next = func(v any) { parent[key] = v }, func() { delete(parent, key) }, parent[key]
		case []any:
			if len(parent) == 0 {
				return "nothing in " + path
			}
			i := random.IntN(len(parent))
			path = fmt.Sprintf("%s[%d]", path, i)
			set, remove, next = func(v any) { parent[i] = v }, func() { parent[i] = nil }, parent[i]
		}
		_, isMap := next.(map[string]any)
		_, isList := next.([]any)
		if (isMap || isList) && random.IntN(6) > 0 {
			at = next
			continue
		}
		values := []any{"", "x", strings.Repeat("long", 100), int64(-1), int64(1 << 40), 1.5, true, nil, []any{}, []any{"a", "a"}, map[string]any{},
			map[string]any{"unknown": int64(1)}, "1h", "UPPER"}
		if i := random.IntN(len(values) + 3); i < len(values) {
			set(values[i])
			return fmt.Sprintf("%s = %v", path, values[i])
		}
		remove()
		return "no " + path
	}
}

// drafts are the places where projects keep objects that do not fit their definitions: designs, templates, and old versions.
var drafts = []string{
	"github.com/argoproj/argo-cd/v3/applicationset/examples/design-doc/",
	"github.com/crossplane/crossplane/v2/test/e2e/manifests/",
	"github.com/external-secrets/external-secrets/",
	"github.com/prometheus-operator/prometheus-operator/example/user-guides/scrapeclass/",
	"sigs.k8s.io/gateway-api/hack/invalid-examples/experimental/", // invalid by other definitions
}

// check checks an answer: a published object is accepted unchanged, or refused for a reason.
func (k publishedKind) check(t *testing.T, e *harness.Example, q step, a answer) {
	t.Helper()
	wrong := false
	switch {
	case k.converted: // objects stored in another version cannot be read
	case strings.HasPrefix(q.Send, "POST") && strings.HasSuffix(q.Send, "Warn") && q.Note == "":
		refused := a.code == http.StatusUnprocessableEntity
		draft := slices.ContainsFunc(drafts, func(place string) bool { return strings.HasPrefix(e.File, place) })
		wrong = !draft && refused != strings.Contains(e.File, "/invalid-examples/") || !refused && a.code != http.StatusCreated
	case strings.HasPrefix(q.Send, "PATCH") && bytes.Contains(a.text, []byte(untypedPatch)):
	default:
		wrong = a.code >= http.StatusInternalServerError
	}
	if wrong {
		t.Errorf("%s: %s %s\n%d %.2000s", e.File, q.Send, q.Note, a.code, a.text)
	}
}
