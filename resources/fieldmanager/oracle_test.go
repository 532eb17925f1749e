package fieldmanager

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"reflect"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	crdfuzzer "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/fuzzer"
	crdinstall "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/managedfields"
	apiserviceinstall "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	apitesting "k8s.io/kubernetes/pkg/api/testing"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// objectKinds lists the kinds of a scheme that have metadata, in all their versions.
func objectKinds(scheme *runtime.Scheme) []schema.GroupVersionKind {
	var out []schema.GroupVersionKind
	for kind := range scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || strings.HasSuffix(kind.Kind, "List") {
			continue
		}
		obj, err := scheme.New(kind)
		if err != nil {
			continue
		}
		if _, err := meta.Accessor(obj); err == nil && managed(scheme, kind) {
			out = append(out, kind)
		}
	}
	return sortedKinds(out)
}

// managed reports whether a kind has an internal form and is not one of metav1's.
func managed(scheme *runtime.Scheme, kind schema.GroupVersionKind) bool {
	return scheme.Recognizes(schema.GroupVersionKind{Group: kind.Group, Version: runtime.APIVersionInternal, Kind: kind.Kind})
}

// subject is a kind under test: an object that both managers handle through the same requests.
type subject struct {
	t         testing.TB
	scheme    *runtime.Scheme
	rand      *rand.Rand
	fill      *randfill.Filler
	versions  []schema.GroupVersion
	kind      string
	oracles   map[string]*managedfields.FieldManager
	ours      map[string]*Manager
	live      runtime.Object // in the hub form
	fallbacks map[string]int // by operation and reason
	steps     map[string]int // by operation
	op        string
	log       []string
}

// world is a scheme under test.
type world struct {
	scheme *runtime.Scheme
	codecs serializer.CodecFactory
	funcs  fuzzer.FuzzerFuncs
	types  func(testing.TB) managedfields.TypeConverter // upstream's, for all kinds
}

func newWorld(scheme *runtime.Scheme, codecs serializer.CodecFactory, funcs fuzzer.FuzzerFuncs) *world {
	w := &world{scheme: scheme, codecs: codecs, funcs: funcs}
	var once sync.Once
	var types managedfields.TypeConverter
	w.types = func(t testing.TB) managedfields.TypeConverter {
		once.Do(func() { types = upstreamTypes(t, scheme, objectKinds(scheme)) })
		return types
	}
	return w
}

// coreWorld has the kinds of kube-apiserver proper, extensionWorld those of the two servers inside it.
var (
	coreWorld      = newWorld(legacyscheme.Scheme, legacyscheme.Codecs, apitesting.FuzzerFuncs)
	extensionWorld = func() *world {
		scheme := runtime.NewScheme()
		crdinstall.Install(scheme)
		apiserviceinstall.Install(scheme)
		return newWorld(scheme, serializer.NewCodecFactory(scheme), fuzzer.MergeFuzzerFuncs(metafuzzer.Funcs, crdfuzzer.Funcs))
	}()
)

func newSubject(t testing.TB, world *world, gvs []schema.GroupVersion, kind string, seed int64) *subject {
	scheme := world.scheme
	r := rand.New(rand.NewSource(seed))
	s := &subject{
		t: t, scheme: scheme, rand: r, versions: gvs, kind: kind,
		fill:      fuzzer.FuzzerFor(world.funcs, rand.NewSource(seed), world.codecs).NilChance(0.5).NumElements(0, 3),
		oracles:   map[string]*managedfields.FieldManager{},
		ours:      map[string]*Manager{},
		fallbacks: map[string]int{}, steps: map[string]int{},
	}
	for _, gv := range gvs {
		for _, subresource := range []string{"", "status"} {
			reset := map[fieldpath.APIVersion]*fieldpath.Set{}
			for _, v := range gvs {
				reset[fieldpath.APIVersion(v.String())] = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
				if subresource != "" {
					reset[fieldpath.APIVersion(v.String())] = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata", "labels"))
				}
			}
			hub := schema.GroupVersion{Group: gv.Group, Version: runtime.APIVersionInternal}
			ours, err := New(Config{
				Scheme: scheme, Kind: gv.WithKind(kind), Hub: hub, Versions: gvs, Subresource: subresource, ResetFields: reset,
				Fallback: func(reason string) { s.fallbacks[s.op+": "+reason]++ },
			})
			if err != nil {
				t.Fatal(err)
			}
			oracle, err := managedfields.NewDefaultFieldManager(world.types(t), runtime.UnsafeObjectConvertor(scheme), scheme, scheme,
				gv.WithKind(kind), hub, subresource, fieldpath.NewExcludeFilterSetMap(reset))
			if err != nil {
				t.Fatal(err)
			}
			s.ours[gv.Version+"/"+subresource], s.oracles[gv.Version+"/"+subresource] = ours, oracle
		}
	}
	return s
}

// request picks the writer and the kind of write.
func (s *subject) request() (gv schema.GroupVersion, path, manager string) {
	gv = s.versions[0]
	if s.rand.Intn(8) == 0 {
		gv = s.versions[s.rand.Intn(len(s.versions))]
	}
	path = gv.Version + "/"
	if s.rand.Intn(4) == 0 {
		path += "status"
	}
	manager = fmt.Sprintf("m%d", s.rand.Intn(4))
	if s.rand.Intn(4) == 0 {
		manager = fmt.Sprintf("m%d", s.rand.Intn(16))
	}
	if s.rand.Intn(12) == 0 {
		manager = []string{"", "kubectl", "ünï", "a\"b<c>"}[s.rand.Intn(4)]
	}
	return gv, path, manager
}

// create replaces the object by a new one.
func (s *subject) create() {
	gv, path, manager := s.request()
	obj := s.random(gv)
	empty, err := s.scheme.New(gv.WithKind(s.kind))
	if err != nil {
		s.t.Fatal(err)
	}
	s.step("create", gv, path, manager, false, empty, obj, nil)
}

// update changes some of the object.
func (s *subject) update() {
	gv, path, manager := s.request()
	before := s.encoded(gv, s.live)
	after := before
	if s.rand.Intn(8) > 0 {
		after = s.blend(before, s.encoded(gv, s.random(gv))).(map[string]any)
	}
	after["apiVersion"], after["kind"] = gv.String(), s.kind
	after["metadata"].(map[string]any)["managedFields"] = before["metadata"].(map[string]any)["managedFields"]
	obj := s.decoded(gv, after)
	m, _ := meta.Accessor(obj)
	switch s.rand.Intn(16) {
	case 0, 1, 2:
		m.SetManagedFields(nil)
	case 3:
		m.SetManagedFields([]metav1.ManagedFieldsEntry{})
	case 4:
		m.SetManagedFields([]metav1.ManagedFieldsEntry{{}})
	case 5:
		m.SetManagedFields(s.vandalised(m.GetManagedFields()))
	}
	s.step("update", gv, path, manager, false, s.live, obj, nil)
}

// apply sends part of an object.
func (s *subject) apply() {
	gv, path, manager := s.request()
	fresh := s.encoded(gv, s.random(gv))
	whole := fresh
	if s.rand.Intn(3) > 0 {
		whole = s.blend(s.encoded(gv, s.live), fresh).(map[string]any)
	}
	patch := s.part(whole).(map[string]any)
	patch["apiVersion"], patch["kind"] = gv.String(), s.kind
	metadata, _ := patch["metadata"].(map[string]any)
	if metadata == nil {
		metadata = map[string]any{}
	}
	for _, k := range []string{"managedFields", "resourceVersion", "uid", "creationTimestamp", "selfLink"} {
		delete(metadata, k)
	}
	metadata["name"] = "name"
	patch["metadata"] = metadata
	if s.rand.Intn(16) == 0 {
		patch["nonsense"] = int64(1)
	}
	s.step("apply", gv, path, manager, s.rand.Intn(3) > 0, s.live, nil, &unstructured.Unstructured{Object: jsonNumbers(patch).(map[string]any)})
}

// step calls both managers and compares their answers; the object then becomes the common result.
func (s *subject) step(op string, gv schema.GroupVersion, path, manager string, force bool, live, obj runtime.Object, patch *unstructured.Unstructured) {
	s.t.Helper()
	s.steps[op]++
	s.op = op
	run := func(up bool) (runtime.Object, error) {
		liveCopy := live.DeepCopyObject()
		if patch != nil {
			if up {
				return s.oracles[path].Apply(liveCopy, patch.DeepCopy(), manager, force)
			}
			defer s.unchanged(live, liveCopy)
			return s.ours[path].Apply(liveCopy, patch.DeepCopy(), manager, force)
		}
		if up {
			return s.oracles[path].UpdateNoErrors(liveCopy, obj.DeepCopyObject(), manager), nil
		}
		if op != "create" {
			defer s.unchanged(live, liveCopy)
		}
		return s.ours[path].Update(liveCopy, obj.DeepCopyObject(), manager), nil
	}
	var want, got runtime.Object
	var wantErr, gotErr error
	for second := int64(-1); second != time.Now().Unix(); {
		second = time.Now().Unix() // both answers carry the same second
		got, gotErr = run(false)
		want, wantErr = run(true)
	}
	s.log = append(s.log, fmt.Sprintf("%s %s by %q force=%v", op, path, manager, force))
	if s.compare(gv, op, live, obj, patch, got, gotErr, want, wantErr) {
		s.live = s.aged(want)
	}
}

func (s *subject) unchanged(want, got runtime.Object) {
	if !reflect.DeepEqual(want, got) {
		s.t.Errorf("%s: the live object was changed: %s", s.kind, cmp.Diff(want, got))
	}
}

func (s *subject) compare(gv schema.GroupVersion, op string, live, obj runtime.Object, patch *unstructured.Unstructured, got runtime.Object, gotErr error, want runtime.Object, wantErr error) bool {
	s.t.Helper()
	if diff := cmp.Diff(describe(wantErr), describe(gotErr)); diff != "" {
		s.t.Fatalf("%s %v %s: errors differ (-upstream +ours):\n%s", s.kind, gv, op, diff)
	}
	if wantErr != nil {
		return false
	}
	wantJSON, gotJSON := s.encoded(gv, want), s.encoded(gv, got)
	if diff := cmp.Diff(wantJSON, gotJSON); diff != "" {
		input := ""
		if patch != nil {
			text, _ := json.Marshal(patch)
			input = string(text)
		} else {
			text, _ := json.Marshal(s.encoded(gv, obj))
			input = string(text)
		}
		before, _ := json.Marshal(live)
		if op != "create" {
			before, _ = json.Marshal(s.encoded(gv, live))
		}
		s.t.Fatalf("%s %v %s: objects differ (-upstream +ours):\n%s\nlog: %s\nlive: %s\ninput: %s", s.kind, gv, op, diff, strings.Join(s.log, "; "), before, input)
	}
	if !meta.IsListType(want) && !cmp.Equal(fieldsOf(want), fieldsOf(got)) {
		s.t.Fatalf("%s %v %s: managedFields differ: %s", s.kind, gv, op, cmp.Diff(fieldsOf(want), fieldsOf(got)))
	}
	return true
}

// fieldsOf returns the exact bytes of managedFields.
func fieldsOf(obj runtime.Object) []string {
	m, _ := meta.Accessor(obj)
	var out []string
	for _, e := range m.GetManagedFields() {
		fields := e.FieldsV1.GetRawString()
		e.FieldsV1 = nil
		text, _ := json.Marshal(e)
		out = append(out, string(text)+" "+fields)
	}
	return out
}

func describe(err error) any {
	if status, ok := err.(apierrors.APIStatus); ok {
		out := status.Status()
		if out.Details != nil {
			// Upstream lists conflicts in the order of a map.
			sort.Slice(out.Details.Causes, func(i, j int) bool {
				a, b := out.Details.Causes[i], out.Details.Causes[j]
				return a.Message+a.Field < b.Message+b.Field
			})
		}
		return out
	}
	switch {
	case err == nil:
		return nil
	case strings.Contains(err.Error(), "not declared in schema"):
		return "not declared in schema" // the rest of the text depends on the order of a map
	}
	lines := strings.Split(err.Error(), "\n") // some lines come in the order of a map
	sort.Strings(lines)
	return lines
}
