package custom

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/rowlock/rowlock/resources"
)

// choices chooses a number below n.
type choices interface{ IntN(n int) int }

// edited is a definition of Things in three versions that is edited by choice, with the objects that were stored by it.
type edited struct {
	*testing.T
	rand     choices
	compiled *compiled
	schemas  map[string]map[string]any
	storage  string
	stored   []string
	revision int64
	now      *definition
	objects  []*resources.Object
	// kept and changed count the forms of versions after an edit; keptDifferent, those kept although another schema was edited.
	kept, keptDifferent, changed int
}

var threeVersions = []string{"v1", "v2", "v3"}

// schema makes a schema of a few names, so that the schemas of two versions have much in common.
func (e *edited) schema(depth int) map[string]any {
	kind := e.rand.IntN(8)
	switch {
	case depth == 0 || kind < 2:
		s := map[string]any{"type": "string"}
		if e.rand.IntN(3) == 0 {
			s["default"] = fmt.Sprint(e.rand.IntN(3))
		}
		if e.rand.IntN(4) == 0 {
			s["nullable"] = true
		}
		return s
	case kind == 2:
		return map[string]any{"type": "array", "items": e.schema(depth - 1)}
	case kind == 3:
		return map[string]any{"type": "object", "additionalProperties": e.schema(depth - 1)}
	}
	properties := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		if e.rand.IntN(2) == 0 {
			properties[name] = e.schema(depth - 1)
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if e.rand.IntN(5) == 0 {
		s["x-kubernetes-preserve-unknown-fields"] = true
	}
	if e.rand.IntN(5) == 0 {
		s["default"] = defaultOf(properties)
	}
	return s
}

// defaultOf is a default that fits the properties.
func defaultOf(properties map[string]any) map[string]any {
	value := map[string]any{}
	for name, p := range properties {
		if p.(map[string]any)["type"] == "string" {
			value[name] = "d"
		}
	}
	return value
}

// value makes a value with the same names.
func (e *edited) value(depth int) map[string]any {
	v := map[string]any{}
	for _, name := range []string{"a", "b", "c"} {
		switch kind := e.rand.IntN(6); {
		case kind == 0:
			v[name] = nil
		case kind == 1 && depth > 0:
			v[name] = []any{e.value(depth - 1), "x"}
		case kind < 4 && depth > 0:
			v[name] = e.value(depth - 1)
		case kind == 4:
			v[name] = "x"
		}
	}
	return v
}

// edit changes a schema, at one place if it can.
func (e *edited) edit(s map[string]any, depth int) map[string]any {
	properties, _ := s["properties"].(map[string]any)
	name := []string{"a", "b", "c"}[e.rand.IntN(3)]
	below, there := properties[name].(map[string]any)
	delete(s, "default") // the default might not fit any more
	switch {
	case properties == nil || depth == 0:
		return e.schema(depth)
	case there && e.rand.IntN(4) > 0:
		properties[name] = e.edit(below, depth-1)
	case there && e.rand.IntN(2) == 0:
		delete(properties, name)
	default:
		properties[name] = e.schema(depth - 1)
	}
	return s
}

// commit makes a definition from the present schemas.
func (e *edited) commit() {
	e.revision++
	if !slices.Contains(e.stored, e.storage) {
		e.stored = append(e.stored, e.storage)
	}
	var versions []any
	for _, v := range threeVersions {
		versions = append(versions, map[string]any{"name": v, "served": true, "storage": v == e.storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": e.schemas[v]}}}})
	}
	data, err := json.Marshal(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.x.io", "uid": "u"},
		"spec": map[string]any{"group": "x.io", "scope": "Cluster", "names": map[string]any{"plural": "things", "kind": "Thing"}, "versions": versions},
		"status": map[string]any{"storedVersions": e.stored, "acceptedNames": map[string]any{"plural": "things", "kind": "Thing", "listKind": "ThingList"},
			"conditions": []any{map[string]any{"type": "NamesAccepted", "status": "True"}, map[string]any{"type": "Established", "status": "True"}}}})
	if err != nil {
		e.Fatal(err)
	}
	o := resources.NewObject(resources.Key{Resource: Resource, Name: "things.x.io"}, resources.Draft{Data: data}, e.revision)
	next, err := newDefinition(o, nil, e.compiled, &lines{})
	if err != nil {
		e.Fatal(err)
	}
	next.follows(e.now, false)
	e.now = next
}

// write stores an object by the present definition, sent in some version.
func (e *edited) write() {
	e.revision++
	t := e.now.types.of(threeVersions[e.rand.IntN(3)])
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": t.Hub.String(), "kind": "Thing", "metadata": map[string]any{"name": "x"}, "spec": e.value(3)}}
	e.now.repair(u)
	e.now.fill(t.Hub.Version, u.Object)
	draft, err := t.NewDraft(e.Context(), u)
	if err != nil {
		e.Fatal(err)
	}
	e.objects = append(e.objects, resources.NewObject(resources.Key{Resource: "things.x.io", Name: fmt.Sprint("x", len(e.objects))}, draft, e.revision))
}

// shown is an object as clients see it in the version of a type.
func shown(t *resources.Type, o *resources.Object) (string, error) {
	if t.Hub == t.StorageVersion && t.IsIn(o, t.Hub) && t.Current(o) {
		return string(o.Data), nil
	}
	data, err := o.Form(t.FormID("shown "+t.Hub.Version, true), func() ([]byte, error) { return made(t, o) })
	return string(data), err
}

func made(t *resources.Type, o *resources.Object) ([]byte, error) {
	obj, err := t.DecodeHub(o)
	if err != nil {
		return nil, err
	}
	return json.Marshal(obj.(runtime.Unstructured).UnstructuredContent())
}

// A version that keeps its form when the definition is edited shows every object by the same bytes, which are also those of an object without
// kept forms. Some edits keep the form.
func TestSameFormSameBytes(t *testing.T) {
	var kept, keptDifferent, changed int
	for seed := range uint64(80) {
		e := newEdited(t, rand.New(rand.NewPCG(seed, 9)), seed%4 == 0)
		for range 12 {
			e.round()
		}
		kept, keptDifferent, changed = kept+e.kept, keptDifferent+e.keptDifferent, changed+e.changed
	}
	t.Logf("forms kept: %d, of which another schema changed: %d; changed: %d", kept+keptDifferent, keptDifferent, changed)
	if min(kept, keptDifferent, changed) < 100 {
		t.Error("that is too one-sided a choice")
	}
}

// FuzzSameForm is TestSameFormSameBytes with schemas, edits and objects of any bytes.
func FuzzSameForm(f *testing.F) {
	random := rand.NewChaCha8([32]byte{1})
	for n := range 20 {
		seed := make([]byte, 50*n)
		_, _ = random.Read(seed)
		f.Add(seed, n%4 == 0)
	}
	f.Fuzz(func(t *testing.T, bytes []byte, alike bool) {
		from := chosen(bytes[:min(len(bytes), 2000)])
		e := newEdited(t, &from, alike)
		for range 12 {
			if e.round(); len(from) == 0 {
				break
			}
		}
	})
}

// chosen are choices by bytes, and the first choice when there are none left.
type chosen []byte

// IntN implements choices.
func (c *chosen) IntN(n int) int {
	if len(*c) == 0 {
		return 0
	}
	one := int((*c)[0]) % n
	*c = (*c)[1:]
	return one
}

// newEdited makes a definition; alike: with one schema for all versions, so that an edit changes all.
func newEdited(t *testing.T, r choices, alike bool) *edited {
	e := &edited{T: t, rand: r, compiled: &compiled{room: compiledRoom}, schemas: map[string]map[string]any{}, storage: "v1"}
	for _, v := range threeVersions {
		e.schemas[v] = e.schema(3)
		if alike {
			e.schemas[v] = e.schemas["v1"]
		}
	}
	e.commit()
	return e
}

// round stores some objects, edits the definition, and compares how both definitions show the objects.
func (e *edited) round() {
	e.Helper()
	for range 3 {
		e.write()
	}
	before, shapes := e.now, fmt.Sprint(e.now.sums)
	looks := map[string]string{}
	for _, v := range threeVersions {
		for _, o := range e.objects {
			looks[v+o.Name] = look(e.T, before.types.of(v), o)
		}
	}
	edits := e.rand.IntN(4) // of a schema, of the storage version, or of both
	if edits < 2 {
		e.storage = threeVersions[e.rand.IntN(3)]
	}
	if edits > 0 {
		v := threeVersions[e.rand.IntN(3)]
		e.schemas[v] = e.edit(e.schemas[v], 3)
	}
	e.commit()
	// A request that began under the earlier definition encodes an object that was stored by the later one, and keeps the result.
	e.write()
	for _, v := range threeVersions {
		_, _ = shown(before.types.of(v), e.objects[len(e.objects)-1])
	}
	for _, v := range threeVersions {
		is := e.now.types.of(v)
		same := is.Form == before.types.of(v).Form
		switch {
		case !same:
			e.changed++
		case shapes != fmt.Sprint(e.now.sums):
			e.keptDifferent++
		default:
			e.kept++
		}
		for _, o := range e.objects {
			now := look(e.T, is, o)
			if fresh, err := made(is, o); err != nil || now != string(fresh) {
				e.Fatalf("%s is shown in %s as %s, it is %s: %v", o.Data, v, now, fresh, err)
			}
			if was, there := looks[v+o.Name]; same && there && now != was {
				e.Fatalf("%s keeps its form, and %s is\n%s, it was\n%s", v, o.Data, now, looks[v+o.Name])
			}
		}
	}
}

func look(t *testing.T, is *resources.Type, o *resources.Object) string {
	t.Helper()
	data, err := shown(is, o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
