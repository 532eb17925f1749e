package custom

import (
	"errors"
	"slices"
	"testing"

	"github.com/rowlock/rowlock/resources"
)

// packs is a store that keeps one object packed.
type packs struct {
	resources.View
	object *resources.Object
}

func (p packs) Kept(resources.Key) *resources.Object { return p.object }

// At rest a definition keeps its object packed, as the store does, and still reads its schemas; it does not take an object of
// another revision.
func TestCool(t *testing.T) {
	o := resources.LoadObject(resources.Key{Resource: Resource, Name: "as.x.io"}, 7, []byte(boned), nil, nil)
	same := func(set map[string]string) map[string]string { return set }
	for revision, packed := range map[int64]bool{7: true, 8: false} {
		kept := resources.LoadObject(o.Key, revision, []byte(boned), nil, nil).Packed(slices.Clone[[]byte], same)
		d := &Definitions{Config: Config{Store: packs{object: kept}}, compiled: compiled{room: compiledRoom}, byName: map[string]*definition{}}
		def, err := newDefinition(o, nil, &d.compiled, nil)
		if err != nil {
			t.Fatal(err)
		}
		d.byName[o.Name] = def
		if d.Cool(); def.object.Load().IsPacked() != packed {
			t.Errorf("packed at %d: %v", revision, !packed)
		}
		s, err := def.schema("v2")
		if err != nil || len(s.structural.Properties["spec"].XValidations) != 2 {
			t.Errorf("%+v, %v", s, err)
		}
		if _, err := def.schema("v4"); !errors.Is(err, errNoVersion) {
			t.Error(err)
		}
		if again, err := def.schema("v2"); err != nil || again != s {
			t.Error("a schema is made twice")
		}
		if !d.Rest() || d.Rest() {
			t.Error("something is left at rest")
		}
		if again, err := def.schema("v2"); err != nil || again == s {
			t.Error("a schema was left at rest")
		}
	}
}
