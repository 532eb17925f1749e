package fieldmanager

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"weak"

	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// packedSchema describes the built-in types: see schemagen, which writes it. A line that does not start with a space
// opens a type, the indented lines after it are its fields; types stand in byte order.
//
//	s n b u      scalars: string, numeric, boolean, any of them
//	@name        a named type; ^a or ^s after it makes it atomic or separable here
//	[a]t         a list of t: [a] atomic, [A:k1,k2] associative by keys, [A] a set
//	{}t          a map of t: {a} atomic, {s} separable
//	*[]t|{}t     any scalar, list or map
//	!            no type, ?t a nullable one
//
//go:embed schema.txt.gz
var packedSchema []byte

// builtinTypes are the types of packedSchema. They are decoded on demand and not kept; the nodes compiled from them
// are.
var builtinTypes = &typeTable{packed: packedSchema}

type typeTable struct {
	packed []byte
	mu     sync.Mutex
	text   weak.Pointer[string] // stays while many types are looked up
}

func (t *typeTable) unpacked() (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if text := t.text.Value(); text != nil {
		return *text, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(t.packed))
	if err != nil {
		return "", fmt.Errorf("schema of the built-in types: %w", err)
	}
	all, err := io.ReadAll(z)
	if err != nil {
		return "", fmt.Errorf("schema of the built-in types: %w", err)
	}
	text := string(all)
	t.text = weak.Make(&text)
	return text, nil
}

// resolver finds the type that a reference leads to.
type resolver func(schema.TypeRef) (schema.Atom, bool)

// resolve is a resolver.
func (t *typeTable) resolve(ref schema.TypeRef) (schema.Atom, bool) {
	if ref.NamedType == nil {
		return ref.Inlined, true
	}
	def, err := t.lookup(*ref.NamedType)
	if err != nil {
		return schema.Atom{}, false
	}
	if r := ref.ElementRelationship; r != nil && def.Map != nil {
		m := &schema.Map{}
		def.Map.CopyInto(m)
		m.ElementRelationship = *r
		def.Map = m
	}
	return def.Atom, true
}

// reachable returns a schema of a type and of all types that it refers to.
func (t *typeTable) reachable(root string) (*schema.Schema, error) {
	s := &schema.Schema{}
	seen := map[string]bool{}
	for queue := []string{root, untypedAtomic.Name, untypedDeduced.Name}; len(queue) > 0; {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if seen[name] {
			continue
		}
		seen[name] = true
		def, err := t.lookup(name)
		if err != nil {
			return nil, err
		}
		s.Types = append(s.Types, def)
		queue = appendRefs(queue, def.Atom)
	}
	return s, nil
}

func (t *typeTable) lookup(name string) (schema.TypeDef, error) {
	switch name {
	case untypedAtomic.Name:
		return untypedAtomic, nil
	case untypedDeduced.Name:
		return untypedDeduced, nil
	}
	text, err := t.unpacked()
	if err != nil {
		return schema.TypeDef{}, err
	}
	body, ok := find(text, name)
	if !ok {
		return schema.TypeDef{}, fmt.Errorf("no schema of type %s", name)
	}
	def, err := decodeType(name, body)
	if err != nil {
		return schema.TypeDef{}, fmt.Errorf("schema of type %s: %w", name, err)
	}
	return def, nil
}

// find returns the text behind a type's name: the rest of its line and its fields.
func find(text, name string) (string, bool) {
	// opens returns the start of the first type at or after a position.
	opens := func(pos int) int {
		for pos > 0 && pos < len(text) && (text[pos-1] != '\n' || text[pos] == ' ') {
			pos++
		}
		return pos
	}
	pos := opens(sort.Search(len(text), func(i int) bool {
		line := text[opens(i):]
		end := strings.IndexByte(line, ' ')
		return end < 0 || line[:end] >= name
	}))
	body, ok := strings.CutPrefix(text[pos:], name+" ")
	if !ok {
		return "", false
	}
	return body[:opens(pos+len(name)+1)-pos-len(name)-1], true
}

func appendRefs(queue []string, a schema.Atom) []string {
	ref := func(tr schema.TypeRef) {
		if tr.NamedType != nil {
			queue = append(queue, *tr.NamedType)
		} else {
			queue = appendRefs(queue, tr.Inlined)
		}
	}
	if a.List != nil {
		ref(a.List.ElementType)
	}
	if a.Map != nil {
		ref(a.Map.ElementType)
		for _, f := range a.Map.Fields {
			ref(f.Type)
		}
	}
	return queue
}

func decodeType(name, body string) (schema.TypeDef, error) {
	lines := strings.Split(strings.TrimSuffix(body, "\n"), "\n")
	atom, err := decodeAtom(lines[0])
	if err != nil {
		return schema.TypeDef{}, err
	}
	for _, line := range lines[1:] {
		parts := strings.SplitN(line[1:], " ", 3)
		f := schema.StructField{Name: parts[0]}
		if f.Type, err = decodeRef(parts[1]); err != nil {
			return schema.TypeDef{}, err
		}
		if len(parts) == 3 {
			if err := json.Unmarshal([]byte(parts[2]), &f.Default); err != nil {
				return schema.TypeDef{}, err
			}
		}
		atom.Map.Fields = append(atom.Map.Fields, f)
	}
	return schema.TypeDef{Name: name, Atom: atom}, nil
}

var scalarCodes = map[byte]schema.Scalar{'s': schema.String, 'n': schema.Numeric, 'b': schema.Boolean, 'u': schema.Untyped}

func decodeAtom(code string) (schema.Atom, error) {
	if code == "" {
		return schema.Atom{}, fmt.Errorf("empty type")
	}
	switch code[0] {
	case '[':
		end := strings.IndexByte(code, ']')
		elem, err := decodeRef(code[end+1:])
		list := &schema.List{ElementType: elem, ElementRelationship: schema.Atomic}
		if code[1] == 'A' {
			list.ElementRelationship = schema.Associative
			if end > 2 {
				list.Keys = strings.Split(code[3:end], ",")
			}
		}
		return schema.Atom{List: list}, err
	case '{':
		end := strings.IndexByte(code, '}')
		elem, err := decodeRef(code[end+1:])
		return schema.Atom{Map: &schema.Map{ElementType: elem, ElementRelationship: relationship(code[1:end])}}, err
	case '*':
		list, m, _ := strings.Cut(code[1:], "|")
		a, err := decodeAtom(list)
		if err != nil {
			return a, err
		}
		b, err := decodeAtom(m)
		any := schema.Untyped
		return schema.Atom{Scalar: &any, List: a.List, Map: b.Map}, err
	}
	scalar, ok := scalarCodes[code[0]]
	if !ok || len(code) > 1 {
		return schema.Atom{}, fmt.Errorf("unknown type %q", code)
	}
	return schema.Atom{Scalar: &scalar}, nil
}

func relationship(code string) schema.ElementRelationship {
	switch code {
	case "a":
		return schema.Atomic
	case "s":
		return schema.Separable
	}
	return ""
}

func decodeRef(code string) (schema.TypeRef, error) {
	var tr schema.TypeRef
	if code == "!" {
		return tr, nil
	}
	code, tr.Nullable = strings.CutPrefix(code, "?")
	if named, ok := strings.CutPrefix(code, "@"); ok {
		name, override, _ := strings.Cut(named, "^")
		tr.NamedType = &name
		if r := relationship(override); r != "" {
			tr.ElementRelationship = &r
		}
		return tr, nil
	}
	var err error
	tr.Inlined, err = decodeAtom(code)
	return tr, err
}

// untypedAtomic and untypedDeduced are the two types that mean "anything" in every schema made from OpenAPI: one is a
// leaf, the entries of the other's maps are owned separately.
var (
	untypedAtomic  = anything("__untyped_atomic_", "__untyped_atomic_", schema.Atomic)
	untypedDeduced = anything("__untyped_deduced_", "__untyped_deduced_", schema.Separable)
)

func anything(name, mapOf string, r schema.ElementRelationship) schema.TypeDef {
	scalar, atomic := schema.Untyped, "__untyped_atomic_"
	return schema.TypeDef{Name: name, Atom: schema.Atom{
		Scalar: &scalar,
		List:   &schema.List{ElementType: schema.TypeRef{NamedType: &atomic}, ElementRelationship: schema.Atomic},
		Map:    &schema.Map{ElementType: schema.TypeRef{NamedType: &mapOf}, ElementRelationship: r},
	}}
}
