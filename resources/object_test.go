package resources

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"sync"
	"testing"

	"github.com/tidwall/gjson"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// draftOf is a draft of a ConfigMap, as an encoder makes it.
func draftOf(t testing.TB, m metav1.ObjectMeta) Draft {
	t.Helper()
	m.ResourceVersion = PlaceholderRevision
	data, err := json.Marshal(&corev1.ConfigMap{TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"}, ObjectMeta: m,
		Data: map[string]string{"resourceVersion": `"resourceVersion":"9"`}})
	if err != nil {
		t.Fatal(err)
	}
	d, ok := DraftOf(data)
	if !ok {
		t.Fatalf("no resourceVersion in %s", data)
	}
	return d
}

var trickyMeta = metav1.ObjectMeta{Name: `a","resourceVersion":"1`, GenerateName: `"resourceVersion":"2"`, Namespace: "n", UID: "u",
	Annotations: map[string]string{"resourceVersion": "3"}}

func TestRevisionIsThatOfMetadata(t *testing.T) {
	for _, revision := range []int64{1, 9, 10, math.MaxInt64} {
		o := NewObject(Key{Resource: "configmaps", Name: "a"}, draftOf(t, trickyMeta), revision)
		for range 2 {
			if got := gjson.GetBytes(o.Data, "metadata.resourceVersion").Str; got != FormatRevision(o.Revision) {
				t.Errorf("resourceVersion is %s at %d: %s", got, o.Revision, o.Data)
			}
			if !json.Valid(o.Data) || gjson.GetBytes(o.Data, "metadata.annotations.resourceVersion").Str != "3" {
				t.Errorf("damaged: %s", o.Data)
			}
			loaded := LoadObject(o.Key, o.Revision, o.Data, nil, nil)
			if !bytes.Equal(loaded.At(7).Data, o.At(7).Data) {
				t.Errorf("loaded from a database it becomes %s", loaded.At(7).Data)
			}
			o = o.At(o.Revision/2 + 100)
		}
	}
}

// Without a Go type the keys of metadata are sorted, so the client's own names may come first.
func TestRevisionOfUntyped(t *testing.T) {
	for _, before := range []string{"", `"annotations":{"resourceVersion":"3","a":"\"resourceVersion\":\"4\""},"labels":{"resourceVersion":"5"},` +
		`"managedFields":[{"fieldsV1":{"f:metadata":{"resourceVersion":"6"}}}],`} {
		d, ok := DraftOf([]byte(`{"apiVersion":"a/v1","kind":"Thing","metadata":{` + before + `"resourceVersion":"0"},"resourceVersion":"7"}`))
		if !ok {
			t.Fatalf("no resourceVersion after %s", before)
		}
		o := NewObject(Key{}, d, 4711)
		if got := gjson.GetBytes(o.Data, "metadata.resourceVersion").Str; got != "4711" || !json.Valid(o.Data) {
			t.Errorf("it became %s", o.Data)
		}
		if got := gjson.GetBytes(d.withoutRevision().Data, "metadata.resourceVersion"); got.Exists() || !json.Valid(d.withoutRevision().Data) {
			t.Errorf("without a revision it is %s", d.withoutRevision().Data)
		}
	}
	if _, ok := DraftOf([]byte(`{"kind":"Thing","spec":{"resourceVersion":"1"},"metadata":{"annotations":{"resourceVersion":"2"}}}`)); ok {
		t.Error("an object without a resourceVersion has one")
	}
}

func TestWithoutRevision(t *testing.T) {
	for _, m := range []metav1.ObjectMeta{trickyMeta, {}, {Name: "a"}, {Generation: 3}} {
		o := NewObject(Key{}, draftOf(t, m).withoutRevision(), 0)
		var c corev1.ConfigMap
		if err := json.Unmarshal(o.Data, &c); err != nil {
			t.Fatalf("%v: %s", err, o.Data)
		}
		if gjson.GetBytes(o.Data, "metadata.resourceVersion").Exists() || c.Name != m.Name || c.Generation != m.Generation {
			t.Errorf("%+v became %s", m, o.Data)
		}
	}
}

func TestSameState(t *testing.T) {
	d := draftOf(t, trickyMeta)
	if !d.sameState(NewObject(Key{}, d, 12345)) {
		t.Error("the same state at another revision is another")
	}
	if d.sameState(NewObject(Key{}, draftOf(t, metav1.ObjectMeta{Name: "b"}), 1)) {
		t.Error("another state is the same")
	}
}

// Whatever a client puts into an object, the revision is found where the encoder put it, and nowhere else.
func FuzzRevisionSpan(f *testing.F) {
	f.Add("a", `","resourceVersion":"1`, "b")
	f.Add(`\`, `\"resourceVersion\":\"1`, "\x00\xff")
	f.Fuzz(func(t *testing.T, name, generateName, uid string) {
		d := draftOf(t, metav1.ObjectMeta{Name: name, GenerateName: generateName, Namespace: uid})
		if got := string(d.Data[d.RevisionStart:d.RevisionEnd]); got != PlaceholderRevision {
			t.Fatalf("found %q in %s", got, d.Data)
		}
		data, end := WithRevision(d.Data, d.RevisionStart, d.RevisionEnd, 4711)
		if got := gjson.GetBytes(data, "metadata.resourceVersion").Str; got != "4711" || string(data[d.RevisionStart:end]) != "4711" {
			t.Fatalf("resourceVersion is %q in %s", got, data)
		}
	})
}

// The search tolerates arbitrary bytes.
func FuzzRevisionSpanOfGarbage(f *testing.F) {
	f.Add([]byte(`"resourceVersion":"`))
	f.Add([]byte(`{"resourceVersion":""}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		if start, end, ok := RevisionSpan(data); ok && (start > end || end > len(data)) {
			t.Fatalf("%d to %d of %d", start, end, len(data))
		}
	})
}

func TestFormsAreMadeOnce(t *testing.T) {
	o := NewObject(Key{}, draftOf(t, trickyMeta), 1)
	var wg sync.WaitGroup
	results := make([][]byte, 16)
	for i := range results {
		wg.Go(func() {
			results[i], _ = o.Form("x", func() ([]byte, error) { return []byte{byte(i)}, nil })
		})
	}
	wg.Wait()
	kept, _ := o.Form("x", func() ([]byte, error) { t.Error("made again"); return nil, nil })
	for _, r := range results {
		if &r[0] != &kept[0] {
			t.Fatalf("callers got different forms: %v, %v", r, kept)
		}
	}
	if other, _ := o.Form("y", func() ([]byte, error) { return []byte("y"), nil }); string(other) != "y" {
		t.Errorf("another form is %s", other)
	}
}

func TestPath(t *testing.T) {
	for _, k := range []Key{{Name: "a"}, {Namespace: "n", Name: "a"}} {
		if namespace, name := SplitPath(k.Path()); namespace != k.Namespace || name != k.Name {
			t.Errorf("%s is split into %q, %q", k.Path(), namespace, name)
		}
	}
	if strings.Contains(Key{Resource: "r", Name: "a"}.String(), "//") {
		t.Error("a key without a namespace has two slashes")
	}
}
