package handlers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
)

// sequence joins n texts, made from n numbers that begin with from.
func sequence(format string, from, n int) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = fmt.Sprintf(format, from+i)
	}
	return strings.Join(parts, ",")
}

func reversed(list string) string {
	parts := strings.Split(list, ",")
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

func podOf(container string) string {
	return `{"spec":{"containers":[{"name":"c",` + container + `}]}}`
}

func envOf(list string) string { return podOf(`"env":[` + list + `]`) }

func finalizersOf(list string) string { return `{"metadata":{"finalizers":[` + list + `]}}` }

// read decodes the JSON of an object or a patch.
func read(t testing.TB, text string) (object map[string]any) {
	t.Helper()
	if err := kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &object); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	return object
}

// Strategic merge patches that take minutes are rejected, and no others.
func TestAffordableLists(t *testing.T) {
	const env, five = `{"name":"e%d"}`, 5000
	all := sequence(env, 0, five)
	order := func(list string) string { return podOf(`"$setElementOrder/env":[` + list + `]`) }
	pod, config := &corev1.Pod{}, &corev1.ConfigMap{}
	block := `{"spec":{"ingress":[{"from":[` + sequence(`{"ipBlock":{"cidr":"10.0.0.0/%d"}}`, 0, five) + `]}]}}`
	subjects := `{"subjects":[` + sequence(`{"kind":"User","name":"u%d"}`, 0, five) + `]}`
	addresses := `{"subsets":[{"addresses":[` + sequence(`{"ip":"10.0.0.%d"}`, 0, 4*five) + `]}]}`
	for _, c := range []struct {
		name       string
		schema     runtime.Object
		old, patch string
		affordable bool
	}{
		{"blocks of a NetworkPolicy", &networkingv1.NetworkPolicy{}, block, block, true},
		{"subjects of a RoleBinding", &rbacv1.RoleBinding{}, subjects, subjects, true},
		{"addresses of Endpoints", &corev1.Endpoints{}, addresses, addresses, true}, //nolint:staticcheck // clients still patch them
		{"arguments", pod, podOf(`"args":[` + sequence(`"a%d"`, 0, 50000) + `]`), podOf(`"args":[` + sequence(`"a%d"`, 0, 50000) + `]`), true},
		{"data", config, `{"data":{` + sequence(`"a%d":""`, 0, 50000) + `}}`, `{"data":{` + sequence(`"a%d":"b"`, 0, 50000) + `}}`, true},
		{"the same variables", pod, envOf(all), envOf(all), true},
		{"the same variables, reversed", pod, envOf(all), envOf(reversed(all)), true},
		{"other variables", pod, envOf(all), envOf(sequence(env, five, five)), true},
		{"the first variables", pod, podOf(`"image":"i"`), envOf(sequence(env, 0, 50000)), true},
		{"an order of variables", pod, envOf(all), order(reversed(all)), true},
		{"one variable", pod, envOf(all), envOf(sequence(env, five-1, 1)), true},
		{"deleted variables", pod, envOf(all), envOf(sequence(`{"$patch":"delete","name":"e%d"}`, 0, five)), true},
		{"replaced variables", pod, envOf(sequence(env, 0, 50000)), envOf(`{"$patch":"replace"},` + all), true},
		{"replaced spec", pod, envOf(sequence(env, 0, 50000)), `{"spec":{"$patch":"replace","containers":[{"name":"c","env":[` + sequence(env, 0, 50000) + `]}]}}`, true},
		{"a field that there is not", pod, envOf(all), `{"spec":{"containers":[{"name":"c","what":[` + all + `]}]}}`, true},
		{"variables of different types", pod, envOf(sequence(env, 0, 50000)), envOf(sequence(env, 0, 50000) + `,1`), true},
		{"deleted finalizers", config, finalizersOf(sequence(`"a/%d"`, 0, 50000)), `{"metadata":{"$deleteFromPrimitiveList/finalizers":[` + sequence(`"a/%d"`, 0, 50000) + `]}}`, true},
		{"the same finalizer", config, finalizersOf(`"a/0"`), finalizersOf(repeat(`"a/0"`, 200000)), true},

		{"many of the same variables", pod, envOf(sequence(env, 0, 20000)), envOf(sequence(env, 0, 20000)), false},
		{"many other variables", pod, envOf(sequence(env, 0, 15000)), envOf(sequence(env, 15000, 15000)), false},
		{"one of many variables", pod, envOf(sequence(env, 0, 30000)), envOf(sequence(env, 29999, 1)), false},
		{"many deleted variables", pod, envOf(sequence(env, 0, 30000)), envOf(sequence(`{"$patch":"delete","name":"x%d"}`, 0, 30000)), false},
		{"the only variable, deleted", pod, envOf(sequence(env, 0, 20000) + "," + repeat(`{"name":"x"}`, 40000)), envOf(`{"$patch":"delete","name":"x"}`), false},
		{"an order of many variables", pod, envOf(sequence(env, 0, 20000)), order(sequence(env, 0, 20000)), false},
		{"an order of many that are new", pod, podOf(`"image":"i"`), podOf(`"env":[` + sequence(env, 0, 20000) + `],"$setElementOrder/env":[` + sequence(env, 0, 20000) + `]`), false},
		{"a container twice", pod, podOf(`"image":"i"`), `{"spec":{"containers":[` + repeat(`{"name":"c","env":[`+sequence(env, 0, 20000)+`]}`, 2) + `]}}`, false},
		{"a new container twice", pod, podOf(`"image":"i"`), `{"spec":{"containers":[` + repeat(`{"name":"d","env":[`+sequence(env, 0, 20000)+`]}`, 2) + `]}}`, false},
		{"a container often", pod, podOf(`"image":"i"`), `{"spec":{"containers":[` + repeat(`{"name":"c","env":[`+all+`]}`, 8) + `]}}`, false},
		{"many lists", pod, `{"spec":{"containers":[` + sequence(`{"name":"c%d","env":[`+all+`]}`, 0, 20) + `]}}`,
			`{"spec":{"containers":[` + sequence(`{"name":"c%d","env":[`+sequence(env, 4999, 1)+`]}`, 0, 20) + `]}}`, false},
		{"variables under the directive for scalars", pod, envOf(sequence(env, 0, 20000)), podOf(`"$deleteFromPrimitiveList/env":[` + sequence(env, 0, 20000) + `]`), false},
		{"many finalizers", config, finalizersOf(`"a/b"`), finalizersOf(sequence(`"%d"`, 0, 100000)), false},
		{"one of many finalizers", config, finalizersOf(sequence(`"%d"`, 0, 100000)), finalizersOf(`"a/b"`), false},
		{"an order of many finalizers", config, finalizersOf(sequence(`"%d"`, 0, 30000)), `{"metadata":{"$setElementOrder/finalizers":[` + sequence(`"%d"`, 0, 30000) + `]}}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			original, patch := read(t, c.old), read(t, c.patch)
			err := affordableLists(original, patch, c.schema)
			if (err == nil) != c.affordable || err != nil && !apierrors.IsRequestEntityTooLargeError(err) {
				t.Error(err)
			}
			if !reflect.DeepEqual(original, read(t, c.old)) || !reflect.DeepEqual(patch, read(t, c.patch)) {
				t.Error("the count changed what it was given")
			}
		})
	}
}

// The count follows upstream's merge: its elements are finally those of upstream, in the same order, even with duplicate keys.
func TestCountFollowsTheMerge(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	variables := func(n int, deletes bool) []any {
		list := make([]any, 0, n)
		for range random.IntN(n) + 1 {
			element := map[string]any{"name": fmt.Sprint(random.IntN(n))}
			if deletes && random.IntN(4) == 0 {
				element["$patch"] = "delete"
			}
			list = append(list, element)
		}
		return list
	}
	scalars := func(n int) []any { return keysOf(variables(n, false), "name") }
	m, err := strategicpatch.NewPatchMetaFromStruct(&corev1.Container{})
	if err != nil {
		t.Fatal(err)
	}
	variable, of, err := m.LookupPatchMetadataForSlice("env")
	if err != nil {
		t.Fatal(err)
	}
	for range 2000 {
		n := random.IntN(30) + 1
		old, sent := variables(n, false), variables(n, true)
		c := comparisons{most: mostComparisons}
		got := c.lists(old, sent, of.GetPatchMergeKey(), variable, false)
		shown, _ := json.Marshal([]any{old, sent})
		merged, err := strategicpatch.StrategicMergeMapPatch(map[string]any{"env": old}, map[string]any{"env": sent}, &corev1.Container{})
		if err != nil {
			t.Fatalf("%v: %s", err, shown)
		}
		if want := keysOf(merged["env"].([]any), "name"); !slices.Equal(got, want) {
			t.Fatalf("%s\nthe count: %v\nupstream: %v", shown, got, want)
		}
		old, sent = scalars(n), scalars(n)
		got = c.lists(old, sent, "", nil, false)
		shown, _ = json.Marshal([]any{old, sent})
		merged, err = strategicpatch.StrategicMergeMapPatch(map[string]any{"finalizers": old}, map[string]any{"finalizers": sent}, &metav1.ObjectMeta{})
		if err != nil {
			t.Fatalf("%v: %s", err, shown)
		}
		if want := merged["finalizers"].([]any); !slices.Equal(got, want) {
			t.Fatalf("%s\nthe count: %v\nupstream: %v", shown, got, want)
		}
	}
}

// No input makes the count panic or modify its input, and small inputs are always affordable.
func FuzzComparisons(f *testing.F) {
	for _, seed := range [][2]string{
		{envOf(`{"name":"a"},{"name":"b"}`), envOf(`{"name":"b"},{"name":"a","$patch":"delete"}`)},
		{envOf(`{"name":"a"}`), podOf(`"$setElementOrder/env":[{"name":"b"},{"name":"a"}],"env":[{"name":"b"}]`)},
		{envOf(`{"name":"a"}`), `{"spec":{"containers":[{"name":"c","env":[{"name":"a"}]},{"name":"c","env":[{"name":{}}],"resources":{}},{"name":"c","resources":{"limits":1}}]}}`},
		{`{"spec":{"containers":[null]}}`, `{"spec":{"containers":[{}]}}`},
		{finalizersOf(`"a","b"`), finalizersOf(`"b","b",1`)},
		{finalizersOf(`"a","b"`), `{"metadata":{"$setElementOrder/finalizers":["b"],"$deleteFromPrimitiveList/finalizers":["a"]},"spec":{"$patch":"replace"}}`},
		{`{"spec":{"containers":[null]}}`, `{"spec":{"containers":[[]],"$setElementOrder/containers":null,"$retainKeys":[{}]}}`},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, old, sent string) {
		var original, patch, before, unmerged map[string]any
		if len(old)+len(sent) > fewBytes || kjson.UnmarshalCaseSensitivePreserveInts([]byte(old), &original) != nil || kjson.UnmarshalCaseSensitivePreserveInts([]byte(sent), &patch) != nil {
			return
		}
		if err := affordableLists(original, patch, &corev1.Pod{}); err != nil {
			t.Error(err)
		}
		_, _ = kjson.UnmarshalCaseSensitivePreserveInts([]byte(old), &before), kjson.UnmarshalCaseSensitivePreserveInts([]byte(sent), &unmerged)
		if !reflect.DeepEqual(original, before) || !reflect.DeepEqual(patch, unmerged) {
			t.Error("the count changed what it was given")
		}
	})
}
