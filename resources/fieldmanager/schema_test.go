package fieldmanager

import (
	"reflect"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/kube-openapi/pkg/builder3"
	"k8s.io/kube-openapi/pkg/common"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// upstreamTypes makes the type converter that kube-apiserver makes for some kinds.
func upstreamTypes(t testing.TB, scheme *runtime.Scheme, kinds []schema.GroupVersionKind) managedfields.TypeConverter {
	t.Helper()
	config := &common.OpenAPIV3Config{
		Info:              &spec.Info{},
		GetDefinitions:    generated.GetOpenAPIDefinitions,
		GetDefinitionName: openapi.NewDefinitionNamer(scheme).GetDefinitionName,
	}
	var names []string
	for _, kind := range kinds {
		obj, err := scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, openapiutil.GetCanonicalTypeName(obj))
	}
	definitions, err := builder3.BuildOpenAPIDefinitionsForResources(config, names...)
	if err != nil {
		t.Fatal(err)
	}
	types, err := managedfields.NewTypeConverter(definitions, false)
	if err != nil {
		t.Fatal(err)
	}
	return types
}

// TestSchemaAgreesWithUpstream compares the schema of every built-in kind with the one that kube-apiserver makes of its
// OpenAPI definitions.
func TestSchemaAgreesWithUpstream(t *testing.T) {
	for _, world := range []*world{coreWorld, extensionWorld} {
		schemaAgrees(t, world)
	}
}

func schemaAgrees(t *testing.T, world *world) {
	scheme := world.scheme
	kinds := objectKinds(scheme)
	types := world.types(t)
	ours := &builtinConverter{config: Config{Scheme: scheme, Versions: scheme.PrioritizedVersionsAllGroups()}, types: map[schema.GroupVersionKind]*typed.ParseableType{}}
	for _, kind := range kinds {
		obj, err := scheme.New(kind)
		if err != nil {
			t.Fatal(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(kind)
		want, err := types.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%v: upstream: %v", kind, err)
			continue
		}
		got, err := ours.ObjectToTyped(obj)
		if err != nil {
			t.Errorf("%v: %v", kind, err)
			continue
		}
		wantRef := want.TypeRef()
		if gotRef := got.TypeRef(); !gotRef.Equals(&wantRef) {
			t.Errorf("%v: type %v, want %v", kind, gotRef, wantRef)
		}
		for _, def := range got.Schema().Types {
			wantDef, ok := want.Schema().FindNamedType(def.Name)
			if !ok {
				t.Errorf("%v: %s is not a type upstream", kind, def.Name)
			}
			if diff := cmp.Diff(wantDef, def, compareSchemas...); diff != "" {
				t.Errorf("%v: %s differs (-upstream +ours):\n%s", kind, def.Name, diff)
			}
		}
	}
}

var compareSchemas = []cmp.Option{
	cmpopts.IgnoreUnexported(smdschema.Map{}),
	cmpopts.EquateEmpty(),
	cmp.Transformer("fields", func(m *smdschema.Map) map[string]smdschema.StructField {
		if m == nil {
			return nil
		}
		out := map[string]smdschema.StructField{"element": {Type: m.ElementType}, "relationship": {Name: string(m.ElementRelationship)}}
		for _, f := range m.Fields {
			switch def := reflect.ValueOf(f.Default); def.Kind() {
			case reflect.Map:
				f.Default = nil // irrelevant to field management
			case reflect.Int:
				f.Default = float64(def.Int())
			case reflect.String:
				f.Default = def.String()
			}
			out["field "+f.Name] = f
		}
		return out
	}),
}

func BenchmarkSchema(b *testing.B) {
	for _, kind := range []string{"Pod", "ConfigMap"} {
		b.Run(kind, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := builtinTypes.reachable("io.k8s.api.core.v1." + kind); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func sortedKinds(kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	return kinds
}
