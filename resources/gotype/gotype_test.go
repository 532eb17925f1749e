package gotype_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/resources/gotype"
)

type inner struct {
	InA string `json:"inA"`
	InB int    `json:"inB,omitempty"`
}

type named struct{ X int }

type sample struct {
	Untagged string
	inner    `json:",inline"`
	named    `json:"named"`
	Ignored  string `json:"-"`
	hidden   int
	Pointer  *string `json:"pointer,omitzero"`
	Quoted   int     `json:"quoted,omitempty,string"`
}

// Fields yields the names that encoding/json writes, in its order, and the paths lead to the fields.
func TestFields(t *testing.T) {
	v := sample{Untagged: "u", inner: inner{"a", 1}, Pointer: new(string), Quoted: 1, hidden: 1}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	gjson.ParseBytes(data).ForEach(func(key, _ gjson.Result) bool {
		want = append(want, key.Str)
		return true
	})
	var got []string
	for f := range gotype.Fields(reflect.TypeFor[sample]()) {
		got = append(got, f.JSON)
		if at := reflect.TypeFor[sample]().FieldByIndex(f.Path); at.Name != f.Name || f.JSON == "inB" && f.Start != reflect.TypeFor[sample]().Field(1).Offset+at.Offset {
			t.Errorf("%s is at %v, %d", f.Name, f.Path, f.Start)
		}
		if f.Hidden != (f.JSON == "inA" || f.JSON == "inB") {
			t.Errorf("%s is hidden: %v", f.JSON, f.Hidden)
		}
		if f.OmitEmpty != (f.JSON == "inB" || f.JSON == "quoted") || f.OmitZero != (f.JSON == "pointer") || f.Quoted != (f.JSON == "quoted") {
			t.Errorf("%s: %v, %v, %v", f.JSON, f.OmitEmpty, f.OmitZero, f.Quoted)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("fields %q, want %q", got, want)
	}
	for range gotype.Fields(reflect.TypeFor[corev1.Pod]()) {
		break // a caller may stop early
	}
}

// All concurrent callers get the same result.
func TestMemo(t *testing.T) {
	var m gotype.Memo[*int]
	typ := reflect.TypeFor[sample]()
	if _, ok := m.Known(typ); ok {
		t.Error("known before")
	}
	var all sync.WaitGroup
	got := make([]*int, 16)
	for i := range got {
		all.Go(func() { got[i] = m.Of(typ, func(reflect.Type) *int { return new(int) }) })
	}
	all.Wait()
	known, ok := m.Known(typ)
	for _, p := range got {
		if p != known || !ok {
			t.Error("there are several")
		}
	}
}
