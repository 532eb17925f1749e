package fieldmanager

import (
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	openapiutil "k8s.io/kube-openapi/pkg/util"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// kindTypes is the compiled schema and type of a manager's kind.
type kindTypes struct {
	schema *schemaNode
	reset  pathSet // the reset fields in the version of requests

	// goType and its node are set for built-in kinds: the struct of the version of requests.
	goType reflect.Type
	node   *typedNode
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
	out.node, out.schema = builtinCompiled.of(out.goType, smdschema.TypeRef{NamedType: &name})
	return nil
}

// builtinCompiled are the nodes of built-in types. They are shared by all managers, as kinds share most of their types.
var builtinCompiled = compiledTypes{
	typed:   typedCompiler{resolve: builtinTypes.resolve, made: map[typedKey]*typedNode{}, equal: newEqualities()},
	untyped: schemaCompiler{resolve: builtinTypes.resolve, made: map[string]*schemaNode{}},
}

// compiledTypes makes nodes one at a time. Nodes that it has returned are immutable.
type compiledTypes struct {
	mu      sync.Mutex
	typed   typedCompiler
	untyped schemaCompiler
}

func (c *compiledTypes) of(t reflect.Type, ref smdschema.TypeRef) (*typedNode, *schemaNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.typed.join(t, ref), c.untyped.node(ref)
}

func (c Config) readCustomKind(out *kindTypes) error {
	if stored, ok := c.Types.(StoredSchemas); ok && fastpath.CustomPlans.On() {
		if object, metadata, ok := stored.StoredSchema(c.Kind); ok {
			if out.schema = readStored(object, metadata); out.schema != nil {
				return nil
			}
		}
		fastpath.CustomPlans.Fallback()
	}
	empty := &unstructured.Unstructured{}
	empty.SetGroupVersionKind(c.Kind)
	v, err := c.Types.ObjectToTyped(empty)
	if err != nil {
		return err
	}
	compiler := schemaCompiler{resolve: v.Schema().Resolve, made: map[string]*schemaNode{}}
	out.schema = compiler.node(v.TypeRef())
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
