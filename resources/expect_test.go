package resources_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/rowlock/rowlock/resources"
)

// ruled is a type whose objects are written only while a rule is unchanged.
func (w *way) ruled(rule *resources.Object, computed *int) *resources.Type {
	t := *w.typeOf("configmaps")
	t.Allocate = func(context.Context, resources.Reader, runtime.Object, runtime.Object) ([]resources.Write, error) {
		*computed++
		return []resources.Write{{Op: resources.Expect, Key: rule.Key, From: rule.Revision}}, nil
	}
	return &t
}

// A failed expectation is not treated as a conflict of the object, which would be computed again and again: every verb ends
// with the error.
func TestPipelineExpects(t *testing.T) {
	w := newWay(t)
	rule := commit(t, w.store, write(resources.Create, 0, 1))
	computed := 0
	maps := w.ruled(rule, &computed)
	verbs := []struct {
		name string
		do   func(name string) error
	}{
		{"create", func(name string) error {
			_, err := w.Create(w.request("create", maps, name), &resources.CreateRequest{Type: maps, Object: w.config(name)})
			return err
		}},
		{"update", func(name string) error {
			_, _, err := w.Update(w.request("update", maps, name), &resources.UpdateRequest{Type: maps, Name: name,
				Change: func(_ context.Context, existing runtime.Object, _ *resources.Object) (runtime.Object, error) {
					obj := existing.DeepCopyObject().(*core.ConfigMap)
					obj.Data = map[string]string{"rule": strconv.Itoa(len(obj.Data["rule"]))} // always another value
					return obj, nil
				}})
			return err
		}},
		{"apply", func(name string) error {
			_, _, err := w.Update(w.request("patch", maps, "new-"+name), &resources.UpdateRequest{Type: maps, Name: "new-" + name, ForceCreate: true,
				Change: func(context.Context, runtime.Object, *resources.Object) (runtime.Object, error) {
					return w.config("new-" + name), nil
				}})
			return err
		}},
		{"delete", func(name string) error {
			_, err := w.Delete(w.request("delete", maps, name), &resources.DeleteRequest{Type: maps, Name: name})
			return err
		}},
	}
	for _, verb := range verbs[:3] {
		if err := verb.do("a"); err != nil {
			t.Errorf("%s by the rule: %v", verb.name, err)
		}
	}
	commit(t, w.store, write(resources.Update, rule.Revision, 2))
	before, err := w.store.Snapshot(t.Context(), "configmaps", resources.At{})
	if err != nil {
		t.Fatal(err)
	}
	for i, verb := range verbs {
		computed = 0
		name := []string{"b", "a", "b", "a"}[i] // the created object does not exist
		var unexpected *resources.ExpectationError
		if err := verb.do(name); !errors.As(err, &unexpected) || unexpected.Key != rule.Key || number(unexpected.Current) != 2 || computed != 1 {
			t.Errorf("%s by a rule that has changed: %v, after it was computed %d times", verb.name, err, computed)
		}
	}
	after, err := w.store.Snapshot(t.Context(), "configmaps", resources.At{})
	if err != nil || after.Revision() != before.Revision() {
		t.Errorf("something was written: %v", err)
	}
}

// nameTaken is a store that finds a name taken, but has no object with it.
type nameTaken struct {
	resources.Store
	commits int
}

func (s *nameTaken) Commit(context.Context, ...resources.Write) ([]*resources.Object, error) {
	if s.commits++; s.commits > 1 {
		return nil, errors.New("computed again")
	}
	return nil, resources.ErrExists
}

// A create with an expectation allocates nothing from a supply, so the taken name is its own.
func TestCreateThatExpectsFindsItsNameTaken(t *testing.T) {
	w := newWay(t)
	rule := commit(t, w.store, write(resources.Create, 0, 1))
	maps := w.ruled(rule, new(int))
	p := resources.NewPipeline(&nameTaken{Store: w.store}, resources.PipelineOptions{})
	_, err := p.Create(w.request("create", maps, "a"), &resources.CreateRequest{Type: maps, Object: w.config("a")})
	if !apierrors.IsAlreadyExists(err) {
		t.Errorf("got %v, want AlreadyExists", err)
	}
}
