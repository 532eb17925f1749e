package resources_test

import (
	"context"
	"crypto/sha256"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/warning"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// memory remembers all updates for ever.
type memory map[resources.Digest]bool

func (m memory) Repeatable(_, _ runtime.Object) bool { return true }
func (m memory) Has(d resources.Digest) bool         { return m[d] }
func (m memory) Add(d resources.Digest)              { m[d] = true }

// looker is admission that reads objects: it changes them, or refuses.
type looker struct {
	*gates
	admit, validate func(a admission.Attributes) error
}

func (l *looker) Admit(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := l.gates.Admit(ctx, a, o); err != nil || l.admit == nil {
		return err
	}
	return l.admit(a)
}

func (l *looker) Validate(ctx context.Context, a admission.Attributes, o admission.ObjectInterfaces) error {
	if err := l.gates.Validate(ctx, a, o); err != nil || l.validate == nil {
		return err
	}
	return l.validate(a)
}

// An update that changed nothing is not computed again while the object stays the same; authorization and admission still run,
// and see the objects.
func TestRepetitions(t *testing.T) {
	t.Cleanup(fastpath.Repeats.Turn(true))
	w := newWay(t)
	plugin := &looker{gates: w.gates}
	w.Use(plugin, nil)
	maps := *w.typeOf("configmaps")
	known := memory{}
	maps.Repeats = known
	if _, err := w.Create(w.request("create", &maps, "a"), &resources.CreateRequest{Type: &maps, Object: w.config("a")}); err != nil {
		t.Fatal(err)
	}
	warns := false
	apply := func(value string) (*resources.Object, error) {
		o, _, err := w.Update(w.request("patch", &maps, "a"), &resources.UpdateRequest{Type: &maps, Name: "a",
			Sent: func() resources.Digest { return sha256.Sum256([]byte(value)) },
			Change: func(ctx context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
				w.step("change")
				if warns {
					warning.AddWarning(ctx, "", "a warning")
				}
				obj := existing.DeepCopyObject().(*core.ConfigMap)
				obj.Data = map[string]string{"a": value}
				return obj, nil
			}})
		return o, err
	}
	first := []string{"authorize jane patch a", "change", "admit jane UPDATE configmaps/", "validate jane UPDATE configmaps/", "audit jane patch ns/a done"}
	again := []string{first[0], first[2], first[3], first[4]}
	expect := func(value string, steps ...string) *resources.Object {
		t.Helper()
		w.steps = nil
		o, err := apply(value)
		w.expect(err, "", steps...)
		return o
	}

	expect("one", first...)
	one := expect("one", first...) // it changes nothing, which is not known yet
	for range 2 {
		if o := expect("one", again...); o.Revision != one.Revision || string(o.Data) != string(one.Data) {
			t.Errorf("a repetition has answered %s at %d", o.Data, o.Revision)
		}
	}
	expect("two", first...)
	expect("one", first...) // the object is at another revision
	if len(known) != 1 {
		t.Errorf("%d updates are remembered, want the one that changed nothing", len(known))
	}

	expect("one", first...)
	w.denied = "patch"
	_, err := apply("one")
	w.expect(err, "Forbidden", append(first[:1:1], first[:1]...)[1], "audit jane patch ns/a Forbidden")
	w.denied = ""
	for _, step := range []string{"admit jane UPDATE", "validate jane UPDATE"} {
		w.refuse = step
		if _, err := apply("one"); err == nil {
			t.Errorf("a repetition has passed although %s refuses", step)
		}
	}
	w.refuse = ""

	plugin.validate = func(a admission.Attributes) error {
		now, old := a.GetObject().(*core.ConfigMap), a.GetOldObject().(*core.ConfigMap)
		if now.Data["a"] != "one" || old.Data["a"] != "one" || now == old {
			t.Errorf("admission was asked to validate %v, which was %v", now, old)
		}
		return nil
	}
	expect("one", again...)
	plugin.admit = func(a admission.Attributes) error {
		a.GetObject().(*core.ConfigMap).Data["a"] = "mutated"
		return nil
	}
	plugin.validate = nil
	looked := []string{first[0], first[2], "change", first[3], first[4]}
	if o := expect("one", looked...); o.Revision == one.Revision {
		t.Error("what admission has changed was not written")
	}
	before := len(known)
	expect("one", first...) // changes nothing except by admission
	plugin.admit = nil
	warns = true
	expect("three", first...)
	expect("three", first...)
	expect("three", first...)
	if len(known) != before {
		t.Errorf("%d updates are remembered that were warned of, or that admission has looked at", len(known)-before)
	}
	fastpath.Repeats.Turn(false)
	warns = false
	expect("three", first...)
	expect("three", first...)
}
