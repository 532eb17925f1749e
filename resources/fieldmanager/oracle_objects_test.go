package fieldmanager

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// random makes an object in the hub form as from a request in a version.
func (s *subject) random(gv schema.GroupVersion) runtime.Object {
	obj, err := s.scheme.New(schema.GroupVersionKind{Group: gv.Group, Version: runtime.APIVersionInternal, Kind: s.kind})
	if err != nil {
		s.t.Fatal(err)
	}
	s.fill.Fill(obj)
	m, _ := meta.Accessor(obj)
	m.SetManagedFields(nil)
	m.SetUID("")
	m.SetName("name")
	content := s.encoded(gv, obj)
	if s.rand.Intn(25) > 0 {
		content = s.plain(content).(map[string]any)
	}
	return s.decoded(gv, content)
}

// plain replaces the fuzzer's strings by realistic ones, some of which recur.
func (s *subject) plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range keysOf(v) {
			out[s.plain(k).(string)] = s.plain(v[k])
		}
		return out
	case []any:
		for i := range v {
			v[i] = s.plain(v[i])
		}
	case string:
		if !plainValue(v) {
			return fmt.Sprintf([]string{"a%d", "b.example.com/c%d", "%d", "d-%d"}[s.rand.Intn(4)], s.rand.Intn(20))
		}
	}
	return v
}

// encoded is an object of the hub form as JSON of a version.
func (s *subject) encoded(gv schema.GroupVersion, obj runtime.Object) map[string]any {
	versioned, err := s.scheme.ConvertToVersion(obj, gv)
	if err != nil {
		s.t.Fatal(err)
	}
	text, err := json.Marshal(versioned)
	if err != nil {
		s.t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(text, &u.Object); err != nil {
		s.t.Fatal(err)
	}
	return u.Object
}

// decoded is the reverse, with the defaults of the version.
func (s *subject) decoded(gv schema.GroupVersion, content map[string]any) runtime.Object {
	text, err := json.Marshal(content)
	if err != nil {
		s.t.Fatal(err)
	}
	obj, err := s.scheme.New(gv.WithKind(s.kind))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal(text, obj); err != nil {
		s.t.Fatalf("%v: %s", err, text)
	}
	s.scheme.Default(obj)
	obj.GetObjectKind().SetGroupVersionKind(gv.WithKind(s.kind))
	hub, err := s.scheme.ConvertToVersion(obj, schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal})
	if err != nil {
		s.t.Fatal(err)
	}
	return hub
}

// blend makes a value whose parts come from a or from b.
func (s *subject) blend(a, b any) any {
	am, aok := a.(map[string]any)
	bm, bok := b.(map[string]any)
	if aok && bok {
		out := map[string]any{}
		for _, k := range keysOf(am, bm) {
			av, inA := am[k]
			bv, inB := bm[k]
			switch {
			case inA && inB:
				out[k] = s.blend(av, bv)
			case s.rand.Intn(4) > 0 && inA, s.rand.Intn(4) == 0 && inB:
				if inA {
					out[k] = av
				} else {
					out[k] = bv
				}
			}
		}
		return out
	}
	al, aok := a.([]any)
	bl, bok := b.([]any)
	if aok && bok && len(al) > 0 && len(bl) > 0 {
		out := slices.Clone(al)
		for i := range out {
			if s.rand.Intn(4) == 0 {
				out[i] = s.blend(out[i], bl[s.rand.Intn(len(bl))])
			}
		}
		if s.rand.Intn(6) == 0 {
			out = append(out, bl[0])
		}
		if s.rand.Intn(6) == 0 {
			s.rand.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		}
		if s.rand.Intn(6) == 0 {
			out = out[1:]
		}
		return out
	}
	if s.rand.Intn(6) == 0 {
		return b
	}
	return a
}

func keysOf(maps ...map[string]any) []string {
	var out []string
	for _, m := range maps {
		for k := range m {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// vandalised changes managedFields as a client might that edits them by hand.
func (s *subject) vandalised(in []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	if len(in) == 0 {
		return nil
	}
	out := slices.Clone(in)
	i := s.rand.Intn(len(out))
	odd := []string{
		`{}`, `{"f:metadata":{"f:labels":{}}}`, `{"f:spec":{}}`, `{"f:metadata":{"f:managedFields":{"f:a":{}}}}`, `{".":{}}`,
		` {"f:b":{},"f:a":{}}`, `{"f:metadata":{"f:uid":{},"f:annotations":{".":{},"f:a":{}}}}`, `{"x:y":{}}`, `[]`, `{"f:a":{"k:{\"b\":1,\"a\":2}":{}}}`,
		`{"f:status":{".":{},"f:phase":{}}}`, `{"f:metadata":{"f:finalizers":{"v:\"a\"":{},".":{}}}}`, `{"f:metadata":{"f:ownerReferences":{"k:{\"uid\":\"x\"}":{}}}}`,
	}
	switch s.rand.Intn(6) {
	case 0:
		out = out[:i]
	case 1:
		out[i].FieldsV1 = metav1.NewFieldsV1(odd[s.rand.Intn(len(odd))])
	case 2:
		out[i].Operation = "Other"
	case 3:
		out[i].APIVersion = "example.com/v1"
	case 4:
		out = append(out, out[i])
	case 5:
		out[i].Manager = "someone"
		out[i].Time = nil
	}
	return out
}

// part leaves out some of a value.
func (s *subject) part(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, k := range keysOf(v) {
			if s.rand.Intn(3) > 0 {
				out[k] = s.part(v[k])
			}
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, x := range v {
			if s.rand.Intn(8) > 0 {
				out = append(out, x)
			}
		}
		return out
	}
	return v
}

// jsonNumbers makes whole numbers int64, as the decoder of patches does.
func jsonNumbers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = jsonNumbers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = jsonNumbers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

// aged is an object some time after it was stored.
func (s *subject) aged(obj runtime.Object) runtime.Object {
	m, _ := meta.Accessor(obj)
	m.SetUID(types.UID("uid"))
	entries := m.GetManagedFields()
	for i := range entries {
		if t := entries[i].Time; t != nil && time.Since(t.Time) < time.Minute {
			entries[i].Time = &metav1.Time{Time: t.Add(-time.Duration(100+s.rand.Intn(4)) * time.Second).Truncate(time.Second)}
		}
	}
	m.SetManagedFields(entries)
	return obj
}
