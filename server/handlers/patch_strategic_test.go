package handlers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// strategicTypes are the types of FuzzMergeStrategic.
var strategicTypes = []func() runtime.Object{
	func() runtime.Object { return &corev1.Pod{} }, func() runtime.Object { return &corev1.Node{} }, func() runtime.Object { return &corev1.Service{} },
	func() runtime.Object { return &appsv1.Deployment{} }, func() runtime.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
}

const node = `{"metadata":{"name":"n","labels":{"a":"b"},"finalizers":["x","y"]},"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]},` +
	`"status":{"conditions":[{"type":"A","status":"True"},{"type":"B","status":"False","reason":"r"},{"type":"C","status":"Unknown"}],"capacity":{"cpu":"1"},` +
	`"addresses":[{"type":"InternalIP","address":"192.0.2.1"}],"images":[{"names":["i"],"sizeBytes":7}]}}`

const podSpec = `{"spec":{"containers":[{"name":"a","image":"i","ports":[{"containerPort":80,"protocol":"TCP"},{"containerPort":81}],"env":[{"name":"e","value":"v"}]},` +
	`{"name":"b","resources":{"limits":{"cpu":"1"}}}],"nodeSelector":{"x":"y"},"tolerations":[{"key":"k"}],"volumes":[{"name":"v","emptyDir":{}}]}}`

// strategicSeeds have a type, an object of it, and patches.
var strategicSeeds = []struct {
	typ     uint8
	doc     string
	patches []string
}{
	{1, node, []string{
		`{"status":{"conditions":[{"type":"A","status":"False"}]}}`, `{"status":{"conditions":[{"type":"C","reason":"c"},{"type":"A","reason":"a"}]}}`,
		`{"status":{"$setElementOrder/conditions":[{"type":"A"},{"type":"B"},{"type":"C"}],"conditions":[{"type":"A","reason":"a"},{"type":"C","reason":"c"}]}}`,
		`{"status":{"$setElementOrder/conditions":[{"type":"C"},{"type":"B"}]}}`, `{"status":{"$setElementOrder/conditions":[{"type":"D"},{"type":"B"}],"conditions":[{"type":"D","status":"True"}]}}`,
		`{"status":{"conditions":[{"type":"D","status":"True"},{"type":"B","reason":null}]}}`, `{"status":{"conditions":[{"type":"D","reason":null}]}}`,
		`{"status":{"conditions":[{"$patch":"delete","type":"A"}]}}`, `{"status":{"conditions":[{"$patch":"replace"}]}}`, `{"status":{"conditions":[]}}`, `{"status":{"conditions":null}}`,
		`{"status":{"$setElementOrder/conditions":[{"type":"A"}],"conditions":null}}`, `{"status":{"$setElementOrder/addresses":[{"type":"A"}],"volumesInUse":[]}}`,
		`{"metadata":{"labels":{"a":null,"c":"d"},"annotations":{"e":"f"}}}`, `{"metadata":{"finalizers":["z"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`,
		`{"spec":{"taints":[{"key":"b","effect":"NoExecute"}],"unschedulable":true}}`, `{"spec":{"taints":[{"key":"b","value":null}]}}`,
		`{"status":{"capacity":{"cpu":2,"memory":"1Gi"},"images":[]}}`, `{"status":{"conditions":[{"type":"A"},{"type":"A","reason":"x"}]}}`, `{"status":{"conditions":[{"status":"True"}]}}`,
		`{"status":{"conditions":{"type":"A"}}}`, `{"status":{"conditions":["A"]}}`, `{"status":{"$retainKeys":["capacity"],"capacity":{"cpu":"3"}}}`, `{"status":[]}`, `{"status":null}`, `{}`,
	}},
	{0, podSpec, []string{
		`{"spec":{"containers":[{"name":"b","image":"j"},{"name":"c","image":"k"}]}}`, `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":81,"name":"x"},{"containerPort":82}]}]}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],"containers":[{"name":"a","image":"j"}]}}`, `{"spec":{"containers":[{"name":"a","ports":[{"containerPort":"81"}]}]}}`,
		`{"spec":{"volumes":[{"name":"v","$retainKeys":["name","hostPath"],"hostPath":{"path":"/"}}]}}`, `{"spec":{"volumes":[{"name":"w","hostPath":{"path":"/"}}],"tolerations":[]}}`,
		`{"spec":{"nodeSelector":{"x":"z"},"affinity":{"nodeAffinity":{}}}}`, `{"spec":{"$patch":"replace","containers":[]}}`, `{"spec":{"Containers":[{"name":"a"}]}}`,
		`{"spec":{"containers":[{"name":"a","env":[{"name":"e","value":"w"},{"name":"f","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}]}}`,
		`{"spec":{"containers":[{"name":"\u0061","image":"j"}],"\u006eodeName":"n"}}`, `{"spec":{"containers":[{"name":"a","image":"j","image":"k"}]}}`,
	}},
	{2, `{"spec":{"ports":[{"port":80,"targetPort":"http"},{"port":443}],"selector":{"a":"b"}}}`, []string{
		`{"spec":{"ports":[{"port":80,"nodePort":30000}]}}`, `{"spec":{"ports":[{"port":8e1,"nodePort":30000}]}}`, `{"spec":{"ports":[{"port":-1}],"selector":null}}`,
	}},
	{3, `{"spec":{"replicas":1,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":1}},"template":` + podSpec + `}}`, []string{
		`{"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}`, `{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"replicas":3}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"b","image":"j"}],"terminationGracePeriodSeconds":1.0}}}}`,
	}},
	{4, `{"webhooks":[{"name":"a","rules":[{"operations":["*"]}]},{"name":"b"}]}`, []string{
		`{"webhooks":[{"name":"b","clientConfig":{"url":"https://x"},"rules":[{"operations":["CREATE"]}]}]}`,
	}},
}

// FuzzMergeStrategic compares our merge with upstream's.
func FuzzMergeStrategic(f *testing.F) {
	for _, seed := range strategicSeeds {
		for _, patch := range seed.patches {
			f.Add(seed.typ, seed.doc, patch)
		}
	}
	f.Fuzz(func(t *testing.T, typ uint8, doc, patch string) {
		if !isJSONObject([]byte(doc)) || !isJSONObject([]byte(patch)) || twice(doc) || !utf8.ValidString(doc) || !utf8.ValidString(patch) {
			return
		}
		object := strategicTypes[int(typ)%len(strategicTypes)]()
		schema, err := strategicpatch.NewPatchMetaFromStruct(object)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := mergeStrategicText([]byte(doc), []byte(patch), schema)
		if !ok {
			return
		}
		merged, err := mergeStrategic(readMap(t, doc), readMap(t, patch), object, len(doc)+len(patch))
		if err != nil {
			t.Fatalf("%s merged with %s is %s; upstream: %v", doc, patch, got, err)
		}
		want, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Errorf("%s merged with %s (-want +got):\n%s", doc, patch, diff)
		}
	})
}

// TestMergeStrategicAgrees merges random patches: lists in any order, old and new elements and members, with and without the order of lists, nulls
// and directives.
func TestMergeStrategicAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range 20_000 {
		doc, patch := randomPodText(r, false), randomPodText(r, true)
		object := &corev1.Pod{}
		schema, err := strategicpatch.NewPatchMetaFromStruct(object)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := mergeStrategicText([]byte(doc), []byte(patch), schema)
		if !ok {
			continue
		}
		covered++
		merged, err := mergeStrategic(readMap(t, doc), readMap(t, patch), object, 0)
		if err != nil {
			t.Fatalf("%s merged with %s is %s; upstream: %v", doc, patch, got, err)
		}
		want, err := json.Marshal(merged)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Fatalf("%s merged with %s (-want +got):\n%s", doc, patch, diff)
		}
	}
	if covered < 5_000 {
		t.Errorf("%d patches are covered", covered)
	}
}

// randomPodText is a part of a Pod, or a patch of one.
func randomPodText(r *rand.Rand, patch bool) string {
	rarely := func(text string) string {
		if patch && r.IntN(12) == 0 {
			return text
		}
		return ""
	}
	list := func(key string, names []string, element func(name string) string) string {
		var elements, order []string
		for _, i := range r.Perm(len(names))[:r.IntN(len(names)+1)] {
			elements = append(elements, element(names[i]))
			order = append(order, fmt.Sprintf(`{"name":%q}`, names[i]))
		}
		text := fmt.Sprintf(`%q:[%s]`, key, strings.Join(elements, ","))
		if patch && r.IntN(3) == 0 {
			for range r.IntN(2) {
				order = slices.Insert(order, r.IntN(len(order)+1), `{"name":"z"}`)
			}
			text += fmt.Sprintf(`,"$setElementOrder/%s":[%s]`, key, strings.Join(order, ","))
		}
		return text
	}
	env := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"value":"%d"%s}`, name, r.IntN(3), rarely(`,"valueFrom":null`))
	}
	container := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"image":"%d","args":["%d"],%s%s%s}`, name, r.IntN(3), r.IntN(3), list("env", []string{"e", "f", "g"}, env),
			rarely(`,"$patch":"delete"`), rarely(`,"resources":{"limits":{"cpu":null}}`))
	}
	volume := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"emptyDir":{"medium":"%d"}}`, name, r.IntN(3))
	}
	return fmt.Sprintf(`{"metadata":{"labels":{"a":"%d"%s}%s},"spec":{%s,%s%s}}`, r.IntN(3), rarely(`,"b":null`), rarely(`,"annotations":null`),
		list("containers", []string{"a", "b", "c", "z"}, container), list("volumes", []string{"v", "w", "z"}, volume), rarely(`,"nodeSelector":{"x":null}`))
}

func readMap(t *testing.T, text string) (m map[string]any) {
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &m); err != nil {
		t.Skip(err) // a number that no Go type can represent
	}
	return m
}

// The patches of kubelets, controllers and kubectl are merged without upstream.
func TestStrategicTextCovers(t *testing.T) {
	covered := map[string]bool{}
	for _, seed := range strategicSeeds {
		schema, err := strategicpatch.NewPatchMetaFromStruct(strategicTypes[seed.typ]())
		if err != nil {
			t.Fatal(err)
		}
		for _, patch := range seed.patches {
			_, covered[patch] = mergeStrategicText([]byte(seed.doc), []byte(patch), schema)
		}
	}
	for patch, want := range map[string]bool{
		`{"status":{"conditions":[{"type":"A","status":"False"}]}}`: true,
		`{"status":{"$setElementOrder/conditions":[{"type":"A"},{"type":"B"},{"type":"C"}],"conditions":[{"type":"A","reason":"a"},{"type":"C","reason":"c"}]}}`: true,
		`{"metadata":{"labels":{"a":null,"c":"d"},"annotations":{"e":"f"}}}`:                                                                                     true,
		`{"spec":{"containers":[{"name":"b","image":"j"},{"name":"c","image":"k"}]}}`:                                                                            true,
		`{"spec":{"strategy":{"rollingUpdate":{"maxSurge":"25%"}},"replicas":3}}`:                                                                                true,
		`{"status":{"conditions":[{"$patch":"delete","type":"A"}]}}`:                                                                                             false,
		`{"spec":{"containers":[{"name":"a","image":"j","image":"k"}]}}`:                                                                                         false,
		`{"metadata":{"finalizers":["z"]}}`:                                                                                                                      false,
	} {
		if got, tried := covered[patch]; !tried || got != want {
			t.Errorf("%s: covered %t, tried %t; want %t", patch, got, tried, want)
		}
	}
}

// Types with raw JSON are left to upstream, whose merge encodes it again.
func TestPlainTypes(t *testing.T) {
	for _, typ := range strategicTypes {
		if schema, err := strategicpatch.NewPatchMetaFromStruct(typ()); err != nil || !isPlainType(schema.T) {
			t.Errorf("%T is not plain (%v)", typ(), err)
		}
	}
	for _, object := range []runtime.Object{&appsv1.ControllerRevision{}, &resourcev1.ResourceClaim{}, &apiextensionsv1.CustomResourceDefinition{}} {
		if schema, err := strategicpatch.NewPatchMetaFromStruct(object); err != nil || isPlainType(schema.T) {
			t.Errorf("%T is plain (%v)", object, err)
		}
	}
}
