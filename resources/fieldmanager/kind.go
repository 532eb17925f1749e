package fieldmanager

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// kindTypes is what a manager knows of its kind.
type kindTypes struct {
	schema *schemaPlan
	reset  pathSet // the reset fields in the version of requests

	// Of built-in kinds, the struct of the version of requests and its plan.
	goType reflect.Type
	plan   *plan
}

// newKindTypes reads the schema of the kind and joins it with its Go type.
func (c Config) newKindTypes() (*kindTypes, error) {
	out := &kindTypes{}
	var err error
	if reset := c.ResetFields[fieldpath.APIVersion(c.Kind.GroupVersion().String())]; reset != nil {
		if out.reset, err = fromFieldpath(reset); err != nil {
			return nil, err
		}
	}
	if c.Types != nil {
		return out, c.readCustomKind(out)
	}
	return out, c.readBuiltinKind(out)
}

func (c Config) readBuiltinKind(out *kindTypes) error {
	obj, err := c.Scheme.New(c.Kind)
	if err != nil {
		return err
	}
	name := openapiutil.GetCanonicalTypeName(obj)
	if _, err := builtinTypes.lookup(name); err != nil {
		return err
	}
	out.goType = reflect.TypeOf(obj).Elem()
	out.plan, out.schema = builtinPlans.of(out.goType, smdschema.TypeRef{NamedType: &name})
	return nil
}

// builtinPlans are the plans of built-in types. They are shared by all managers, as kinds share most of their types.
var builtinPlans = planCache{
	typed:   planner{resolve: builtinTypes.resolve, made: map[planKey]*plan{}, equal: newEqualities()},
	untyped: schemaPlanner{resolve: builtinTypes.resolve, made: map[string]*schemaPlan{}},
}

// planCache makes plans one at a time. Plans that it has returned do not change any more.
type planCache struct {
	mu      sync.Mutex
	typed   planner
	untyped schemaPlanner
}

func (c *planCache) of(t reflect.Type, ref smdschema.TypeRef) (*plan, *schemaPlan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.typed.join(t, ref), c.untyped.plan(ref)
}

func (c Config) readCustomKind(out *kindTypes) error {
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(c.Kind)
	v, err := c.Types.ObjectToTyped(empty)
	if err != nil {
		return err
	}
	planner := schemaPlanner{resolve: v.Schema().Resolve, made: map[string]*schemaPlan{}}
	out.schema = planner.plan(v.TypeRef())
	return nil
}

func fromFieldpath(s *fieldpath.Set) (pathSet, error) {
	text, err := s.ToJSON()
	if err != nil {
		return nil, err
	}
	out, ok := parsePathSet(nil, string(text))
	if !ok {
		return nil, fmt.Errorf("reset fields %s are not supported", text)
	}
	return out, nil
}
