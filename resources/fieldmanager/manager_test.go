package fieldmanager

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	core "k8s.io/kubernetes/pkg/apis/core"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

var configMaps = corev1.SchemeGroupVersion.WithKind("ConfigMap")

// clock is a time that tests set.
type clock struct{ seconds int64 }

func (c *clock) now() time.Time { c.seconds++; return time.Unix(c.seconds, 0) }

func newConfigMaps(t *testing.T, edit func(*Config)) (*Manager, *[]string) {
	t.Helper()
	var fallbacks []string
	config := Config{Scheme: legacyscheme.Scheme, Kind: configMaps, Hub: schema.GroupVersion{Version: runtime.APIVersionInternal},
		Now: (&clock{}).now, Fallback: func(reason string) { fallbacks = append(fallbacks, reason) }}
	if edit != nil {
		edit(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	return m, &fallbacks
}

func configMap(data ...string) *core.ConfigMap {
	c := &core.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c", Namespace: "default"}, Data: map[string]string{}}
	for i := 0; i < len(data); i += 2 {
		c.Data[data[i]] = data[i+1]
	}
	return c
}

func configMapPatch(data ...string) *unstructured.Unstructured {
	m := map[string]any{}
	for i := 0; i < len(data); i += 2 {
		m[data[i]] = data[i+1]
	}
	u := &unstructured.Unstructured{Object: map[string]any{"data": m}}
	u.SetGroupVersionKind(configMaps)
	u.SetName("c")
	return u
}

// stored is an object after it was stored: it has a UID.
func stored(obj runtime.Object) *core.ConfigMap {
	c := obj.(*core.ConfigMap)
	c.UID = "uid"
	return c
}

// owners describes managedFields, one line each.
func owners(c *core.ConfigMap) []string {
	var out []string
	for _, e := range c.ManagedFields {
		at := "-"
		if e.Time != nil {
			at = fmt.Sprint(e.Time.Unix())
		}
		out = append(out, fmt.Sprintf("%s %s %s %s", at, e.Manager, e.Operation, e.FieldsV1.GetRawString()))
	}
	return out
}

func expect(t *testing.T, c *core.ConfigMap, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, owners(c)); diff != "" {
		t.Errorf("managedFields (-want +got):\n%s", diff)
	}
}

// TestLifeOfAnObject follows the owners of a ConfigMap: spec/api-concepts.md, "Server-Side Apply", and KEP-555.
func TestLifeOfAnObject(t *testing.T) {
	m, fallbacks := newConfigMaps(t, nil)
	c := stored(m.Create(configMap("a", "1", "b", "1"), "creator"))
	expect(t, c, `1 creator Update {"f:data":{".":{},"f:a":{},"f:b":{}}}`)

	changed := c.DeepCopy()
	changed.Data["b"] = "2"
	c = stored(m.Update(c, changed, "editor"))
	expect(t, c, `1 creator Update {"f:data":{".":{},"f:a":{}}}`, `2 editor Update {"f:data":{"f:b":{}}}`)

	same := c.DeepCopy()
	c = stored(m.Update(c, same, "bystander"))
	expect(t, c, `1 creator Update {"f:data":{".":{},"f:a":{}}}`, `2 editor Update {"f:data":{"f:b":{}}}`)

	out, err := m.Apply(c, configMapPatch("a", "1", "c", "3"), "applier", false)
	if err != nil {
		t.Fatal(err)
	}
	c = stored(out)
	expect(t, c, `3 applier Apply {"f:data":{"f:a":{},"f:c":{}}}`,
		`1 creator Update {"f:data":{".":{},"f:a":{}}}`, `2 editor Update {"f:data":{"f:b":{}}}`)

	// A field that is no longer applied is removed; one that another manager owns stays.
	if out, err = m.Apply(c, configMapPatch("d", "4"), "applier", false); err != nil {
		t.Fatal(err)
	}
	c = stored(out)
	expect(t, c, `4 applier Apply {"f:data":{"f:d":{}}}`,
		`1 creator Update {"f:data":{".":{},"f:a":{}}}`, `2 editor Update {"f:data":{"f:b":{}}}`)
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", "d": "4"}, c.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}

	// managedFields: [{}] drops all owners except the present writer.
	changed = c.DeepCopy()
	changed.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	c = stored(m.Update(c, changed, "reset"))
	expect(t, c)
	if len(*fallbacks) > 0 {
		t.Errorf("upstream was asked: %v", *fallbacks)
	}
}

// TestConflict is KEP-555, "Conflicts": an applier of another manager's field gets an error that names both, or the field, if it
// forces.
func TestConflict(t *testing.T) {
	m, fallbacks := newConfigMaps(t, nil)
	c := stored(m.Create(configMap("a", "1"), "creator"))
	_, err := m.Apply(c, configMapPatch("a", "2"), "applier", false)
	if !apierrors.IsConflict(err) {
		t.Fatalf("error %v, want a conflict", err)
	}
	causes := err.(apierrors.APIStatus).Status().Details.Causes
	if len(causes) != 1 || causes[0].Field != ".data.a" || !strings.Contains(causes[0].Message, `"creator"`) {
		t.Errorf("causes %v", causes)
	}
	if diff := cmp.Diff([]string{"conflict"}, *fallbacks); diff != "" {
		t.Errorf("fallbacks (-want +got):\n%s", diff)
	}
	out, err := m.Apply(c, configMapPatch("a", "2"), "applier", true)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, stored(out), `2 applier Apply {"f:data":{"f:a":{}}}`, `1 creator Update {"f:data":{}}`)
}

// TestApplyWithoutEffect leaves times unchanged: only an owner is new.
func TestApplyWithoutEffect(t *testing.T) {
	m, _ := newConfigMaps(t, nil)
	c := stored(m.Create(configMap("a", "1"), "creator"))
	out, err := m.Apply(c, configMapPatch("a", "1"), "applier", false)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, stored(out), `- applier Apply {"f:data":{"f:a":{}}}`, `1 creator Update {"f:data":{".":{},"f:a":{}}}`)
}

// TestManyManagers checks that at most ten entries of operation Update stay: the oldest are merged.
func TestManyManagers(t *testing.T) {
	m, fallbacks := newConfigMaps(t, nil)
	c := stored(m.Create(configMap("k", "v"), "m00"))
	for i := range 9 {
		changed := c.DeepCopy()
		changed.Data[fmt.Sprint("k", i)] = "v"
		c = stored(m.Update(c, changed, fmt.Sprintf("m%02d", i+1)))
	}
	if len(c.ManagedFields) != 10 || len(*fallbacks) > 0 {
		t.Fatalf("%d entries, fallbacks %v", len(c.ManagedFields), *fallbacks)
	}
	changed := c.DeepCopy()
	changed.Data["last"] = "v"
	c = stored(m.Update(c, changed, "m10"))
	if got := owners(c); len(got) != 10 || !strings.HasSuffix(got[0], `ancient-changes Update {"f:data":{".":{},"f:k":{},"f:k0":{}}}`) {
		t.Errorf("owners %s", strings.Join(got, "\n"))
	}
	if !slices.Contains(*fallbacks, "many managers") {
		t.Errorf("fallbacks %v", *fallbacks)
	}
}

// TestUnmanagedObject leaves objects unchanged that were stored before field management.
func TestUnmanagedObject(t *testing.T) {
	m, _ := newConfigMaps(t, nil)
	c := stored(configMap("a", "1"))
	changed := c.DeepCopy()
	changed.Data["a"] = "2"
	c = stored(m.Update(c, changed, "editor"))
	expect(t, c)
	out, err := m.Apply(c, configMapPatch("b", "1"), "applier", false)
	if err != nil {
		t.Fatal(err)
	}
	expect(t, stored(out), `2 applier Apply {"f:data":{"f:b":{}}}`, `1 before-first-apply Update {"f:data":{".":{},"f:a":{}}}`)
}

// TestDeepRawData updates an object whose raw JSON is nested deeper than encoding/json reads. structured-merge-diff panics on it;
// the object keeps its managedFields, and is validated.
func TestDeepRawData(t *testing.T) {
	m, _ := newConfigMaps(t, func(c *Config) {
		c.Kind = appsv1.SchemeGroupVersion.WithKind("ControllerRevision")
		c.Hub = schema.GroupVersion{Group: appsv1.GroupName, Version: runtime.APIVersionInternal}
	})
	up, err := m.upstream()
	if err != nil {
		t.Fatal(err)
	}
	live := &apps.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "r", Namespace: "default", UID: "uid",
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "before", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "apps/v1",
			Time: &metav1.Time{}, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:revision":{}}`)}}}}
	obj := live.DeepCopy()
	obj.Revision = 2
	obj.Data = runtime.RawExtension{Raw: []byte(strings.Repeat("[", 20000) + strings.Repeat("]", 20000))}
	updated := upstreamUpdate(up, live, obj, "editor").(*apps.ControllerRevision)
	if updated.Revision != 2 || !reflect.DeepEqual(updated.ManagedFields, live.ManagedFields) {
		t.Errorf("revision %d with the managedFields %v", updated.Revision, updated.ManagedFields)
	}
}

// TestSubresourceAndResetFields writes through a subresource, which the entry names and which does not own the fields that it
// resets.
func TestSubresourceAndResetFields(t *testing.T) {
	m, fallbacks := newConfigMaps(t, func(c *Config) {
		c.Subresource = "status"
		c.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{"v1": fieldpath.NewSet(fieldpath.MakePathOrDie("data"))}
	})
	c := configMap("a", "1")
	c.Labels = map[string]string{"l": "1"}
	c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "ignored", Operation: "Update"}}
	c = stored(m.Create(c, "creator"))
	expect(t, c, `1 creator Update {"f:metadata":{"f:labels":{".":{},"f:l":{}}}}`)
	if c.ManagedFields[0].Subresource != "status" || len(*fallbacks) > 0 {
		t.Errorf("entry %v, fallbacks %v", c.ManagedFields[0], *fallbacks)
	}
}

// TestNewRefuses lists invalid configurations.
func TestNewRefuses(t *testing.T) {
	good := Config{Scheme: legacyscheme.Scheme, Kind: configMaps, Hub: schema.GroupVersion{Version: "__internal"}}
	for name, edit := range map[string]func(*Config){
		"no scheme": func(c *Config) { c.Scheme = nil },
		"no kind":   func(c *Config) { c.Kind = schema.GroupVersionKind{} },
		"no hub":    func(c *Config) { c.Hub = schema.GroupVersion{} },
		"both resets": func(c *Config) {
			c.ResetFields = map[fieldpath.APIVersion]*fieldpath.Set{}
			c.ResetFilter = map[fieldpath.APIVersion]fieldpath.Filter{}
		},
	} {
		c := good
		edit(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestConcurrentUse runs writes of kinds that share types, from their first use on, for the race detector.
func TestConcurrentUse(t *testing.T) {
	var wg sync.WaitGroup
	for _, kind := range []string{"Pod", "PodTemplate", "ReplicationController", "Service"} {
		m, err := New(Config{Scheme: legacyscheme.Scheme, Kind: corev1.SchemeGroupVersion.WithKind(kind), Hub: schema.GroupVersion{Version: runtime.APIVersionInternal}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			wg.Go(func() {
				obj, err := legacyscheme.Scheme.New(schema.GroupVersionKind{Version: runtime.APIVersionInternal, Kind: kind})
				if err != nil {
					t.Error(err)
					return
				}
				accessor := obj.(metav1.Object)
				accessor.SetLabels(map[string]string{"n": fmt.Sprint(i)})
				m.Create(obj, "creator")
				if got := accessor.GetManagedFields(); len(got) != 1 || !strings.Contains(got[0].FieldsV1.GetRawString(), `"f:n"`) {
					t.Errorf("%s: managedFields %v", kind, got)
				}
			})
		}
	}
	wg.Wait()
}

// A client may send many entries: they are left to upstream's manager, which does not compare each with all others.
func TestManyEntries(t *testing.T) {
	m, fallbacks := newConfigMaps(t, nil)
	obj := configMap("a", "1")
	for i := range 30_000 {
		obj.ManagedFields = append(obj.ManagedFields, metav1.ManagedFieldsEntry{Manager: fmt.Sprintf("%05d", i), Operation: "Apply", APIVersion: "v1",
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:a":{}}}`)})
	}
	began := time.Now()
	m.Update(&corev1.ConfigMap{}, obj, "m")
	t.Logf("it took %v", time.Since(began))
	if !slices.Equal(*fallbacks, []string{"many managers"}) {
		t.Errorf("left to upstream because of %q", *fallbacks)
	}
}
