package resources_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// FuzzRepetitions: the same updates, in any order and number, have the same answers and results, whether repetitions are remembered or
// computed again.
func FuzzRepetitions(f *testing.F) {
	for _, seed := range []string{"aaaa", "aabbaabb", "aaAaab", "aaxaabxb", "abcabcabcaaabbbccc", "aayaa"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, steps string) {
		if len(steps) > 40 {
			steps = steps[:40]
		}
		remembered, computed := repetitions(t, steps, true), repetitions(t, steps, false)
		for i := range remembered {
			if remembered[i] != computed[i] {
				t.Fatalf("%q, step %d: %s\nwithout the path %s", steps, i, remembered[i], computed[i])
			}
		}
	})
}

// repetitions applies a value for each small letter up to m, as a dry run for a capital one; others are plain updates.
func repetitions(t *testing.T, steps string, on bool) (answers []string) {
	defer fastpath.Repeats.Turn(on)()
	w := newWay(t)
	maps := *w.typeOf("configmaps")
	maps.Repeats = memory{}
	if _, err := w.Create(w.request("create", &maps, "a"), &resources.CreateRequest{Type: &maps, Object: w.config("a")}); err != nil {
		t.Fatal(err)
	}
	for _, step := range steps {
		value := string(step | 0x20)
		r := &resources.UpdateRequest{Type: &maps, Name: "a",
			Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
				obj := existing.DeepCopyObject().(*core.ConfigMap)
				obj.Data = map[string]string{"a": value}
				return obj, nil
			}}
		if value <= "m" {
			r.Sent = func() resources.Digest { return sha256.Sum256([]byte(fmt.Sprint(value, r.DryRun))) }
		}
		r.DryRun = step >= 'A' && step <= 'Z'
		o, created, err := w.Update(w.request("patch", &maps, "a"), r)
		answer := fmt.Sprint(created, err)
		if o != nil {
			answer += fmt.Sprint(" at ", o.Revision, ": ", o.Labels, len(o.Data), dataOf(o))
		}
		answers = append(answers, answer)
	}
	return answers
}

// dataOf is the data of a ConfigMap, without the parts that always differ.
func dataOf(o *resources.Object) string {
	data := string(o.Data)
	for i := range data {
		if len(data)-i > 7 && data[i:i+7] == `"data":` {
			return data[i:min(i+20, len(data))]
		}
	}
	return ""
}
