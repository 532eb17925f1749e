package upstream

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// elsewhere lists the code outside of this package that reaches into upstream, or into memory: by file or folder, with its effect
// and the reason. Anything else that TestOneDoor finds belongs into resources/upstream, with a test that fails when upstream
// changes.
var elsewhere = map[string][]string{
	// The fast paths read and write Go values in memory, by compiled forms of their types.
	"resources/equality":  {"UnsafePointer", "reflect.NewAt", "unsafe.Add", "unsafe.Pointer"},
	"resources/typedjson": {"UnsafePointer", "reflect.NewAt", "unsafe.Add", "unsafe.Pointer"},
	// The size of the HTTP/2 server's buffers. resources knows no HTTP. TestFramesLeaveTogether (server/cork) fails when their size
	// changes, the linker when they are removed, and TestPoolOfHTTP2Buffers when their type changes.
	"server/cork/buffers.go": {"linkname golang.org/x/net/http2.bufWriterPool"},
	// The keys under which upstream's packages keep values in a context. TestKeysAreUpstreams (resources/requestctx) compares what their functions
	// and ours set.
	"resources/requestctx/keys.go": {"notes keys of contexts"},
	// The schemas of no type: such a converter makes upstream's error for a version that is not served, and untyped values.
	"resources/fieldmanager/upstream.go":       {"hands nil to k8s.io/apimachinery/pkg/util/managedfields.NewTypeConverter"},
	"resources/admission/policies_mutating.go": {"hands nil to k8s.io/apimachinery/pkg/util/managedfields.NewTypeConverter"},
	// The dynamic client of the plugins: TestWhatPluginsAsk.
	"resources/admission/plugins.go": {"hands nil to k8s.io/apiserver/pkg/admission/initializer.New"},
	// An allocator that only says how many addresses a range has.
	"resources/builtin/service_metrics.go": {"hands nil to k8s.io/kubernetes/pkg/registry/core/service/ipallocator.NewIPAllocator"},
	// Rules of custom resources without the validators, which our own plans replace.
	"resources/custom/strategy.go":          {"hands nil to k8s.io/apiextensions-apiserver/pkg/registry/customresource.NewStrategy"},
	"resources/untyped/untypedtest/toys.go": {"hands nil to k8s.io/apiextensions-apiserver/pkg/registry/customresource.NewStrategy"},
	// An authorizer that is only asked for the rules of a user, of which it says that it knows none.
	"server/authz/node.go": {"hands nil to k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.NewAuthorizer"},
	// Only the functions that compare and copy the objects are used.
	"server/controlplane/flow_objects.go": {"hands nil to k8s.io/kubernetes/pkg/registry/flowcontrol/ensurer.NewFlowSchemaOps",
		"hands nil to k8s.io/kubernetes/pkg/registry/flowcontrol/ensurer.NewPriorityLevelConfigurationOps"},
}

// takingNil are the constructors that upstream's own code calls with nil, or whose nil argument is documented.
var takingNil = []string{
	"k8s.io/client-go/informers/*.New", "k8s.io/client-go/informers/*/*.New", // no change of the options of lists
	"k8s.io/client-go/tools/clientcmd.NewDefaultClientConfig",              // no overrides
	"k8s.io/client-go/tools/cache.NewIndexer",                              // no indexes
	"k8s.io/apiserver/plugin/pkg/audit/webhook.NewBackend",                 // no dialer of its own
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating.NewValidator", // with an error, which it reports instead
	"k8s.io/apimachinery/pkg/runtime/serializer/versioning.NewCodec",       // only encodes, or only decodes
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core.NewEvaluators",          // no lister: kube-apiserver's admission has none
}

// ours is the module of Rowlock.
const ours = "github.com/rowlock/rowlock"

// ofStrings are the functions of package unsafe for bytes and strings.
var ofStrings = []string{"String", "StringData", "Slice", "SliceData"}

// doors are packages of upstream whose purpose is to be changed. Only this package imports them.
var doors = []string{
	"k8s.io/kubernetes/pkg/api/legacyscheme", "k8s.io/kubernetes/pkg/capabilities",
	"k8s.io/kubernetes/pkg/apis/*/install", "k8s.io/apiextensions-apiserver/pkg/apis/*/install", "k8s.io/kube-aggregator/pkg/apis/*/install",
}

// changing are the beginnings of the names of functions and methods that change variables of a package.
var changing = []string{"Set", "Add", "Register", "MustRegister", "Override", "Install", "Setup", "Initialize", "Reset"}

// harmless are functions with such a name that change only their arguments.
var harmless = []string{
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/node.AddGraphEventHandlers",                          // changes a graph of our own
	"k8s.io/kms/apis/v2.RegisterKeyManagementServiceServer",                                            // with a server of a test
	"k8s.io/kms/apis/v1beta1.RegisterKeyManagementServiceServer",                                       // likewise
	"k8s.io/api/apidiscovery/v2.AddToScheme", "k8s.io/apimachinery/pkg/apis/meta/v1.AddToGroupVersion", // changes a scheme of its own
	"k8s.io/apimachinery/pkg/apis/meta/internalversion.SetListOptionsDefaults", "k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataLabel",
	"k8s.io/apimachinery/pkg/apis/meta/v1.SetMetaDataAnnotation", "k8s.io/apimachinery/pkg/api/meta.SetStatusCondition",
	"k8s.io/apimachinery/pkg/api/meta.SetList", "k8s.io/apimachinery/pkg/util/net.SetTransportDefaults",
	"k8s.io/kube-aggregator/pkg/apis/apiregistration.SetAPIServiceCondition", "k8s.io/apiserver/pkg/warning.AddWarning",
	"k8s.io/apiserver/pkg/apis/apiserver/install.Install",                                             // changes a scheme of its own
	"k8s.io/apiserver/pkg/audit.AddAuditAnnotation", "k8s.io/apiserver/pkg/audit.AddAuditAnnotations", // for the request
	"k8s.io/apiserver/pkg/audit.AddAuditAnnotationsMap",
	"k8s.io/client-go/transport.SetAuthProxyHeaders",
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics.Register",                                                                        // registers its own metrics, once
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddReject", "k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddRequestsExecuting", // counters
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddSeatConcurrencyInUse", "k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddDispatch",
	"k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddRequestsInQueues", "k8s.io/apiserver/pkg/util/flowcontrol/metrics.AddSeatsInQueues",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions.SetCRDCondition", "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured.SetNestedField",
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta.SetObjectMeta",
	"k8s.io/apimachinery/pkg/labels.Set", "k8s.io/apimachinery/pkg/fields.Set", // types
}

// TestOneDoor: code that sets variables of other modules, reads their memory or their keys of contexts, links to unexported symbols, or passes
// nil to their constructors is in this package, or listed in elsewhere. It reads the source without types, so a variable of another module that is
// passed on, or a nil that a variable holds, is not found.
func TestOneDoor(t *testing.T) {
	root, found, files := filepath.Join("..", ".."), map[string][]string{}, 0
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		switch {
		case entry.IsDir() && (path == "e2e" || path == "tools" || path == "bin" || path == "resources/upstream" || entry.Name() == "testdata" || entry.Name() == ".git"):
			return filepath.SkipDir // e2e drives the binary from outside
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		if folder := filepath.ToSlash(filepath.Dir(path)); elsewhere[folder] != nil {
			path = folder
		}
		for _, r := range reachesOf(t, file) {
			if !slices.Contains(found[path], r) {
				found[path] = append(found[path], r)
			}
		}
		return nil
	})
	if err != nil || files < 300 {
		t.Fatalf("%d files were read: %v", files, err)
	}
	for path := range found {
		slices.Sort(found[path])
	}
	if diff := cmp.Diff(elsewhere, found); diff != "" {
		t.Errorf("outside of resources/upstream (-declared +found): %s", diff)
	}
}

// Each file of this package is listed in the package comment, and has its own tests.
func TestEachIsListedAndTested(t *testing.T) {
	comment, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 20 {
		t.Fatalf("%v: %v", files, err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || name == "doc.go" {
			continue
		}
		if !strings.Contains(string(comment), "//\t"+name+" ") {
			t.Errorf("doc.go does not list %s", name)
		}
		if test := strings.TrimSuffix(name, ".go") + "_test.go"; !slices.Contains(files, test) {
			t.Errorf("there is no %s, which fails when upstream changes what %s is about", test, name)
		}
	}
}

// reachesOf returns, each once, the uses in a file that belong into this package.
func reachesOf(t *testing.T, file *ast.File) (reaches []string) {
	t.Helper()
	known := upstreamtest.Imports(t, file)
	note := func(format string, args ...any) {
		if r := fmt.Sprintf(format, args...); !slices.Contains(reaches, r) {
			reaches = append(reaches, r)
		}
	}
	for _, i := range file.Imports { // unknown where two have one name
		for _, door := range doors {
			if ok, err := filepath.Match(door, strings.Trim(i.Path.Value, `"`)); ok || err != nil {
				note("imports %s", strings.Trim(i.Path.Value, `"`))
			}
		}
	}
	for _, group := range file.Comments {
		for _, c := range group.List {
			if words := strings.Fields(c.Text); len(words) > 0 && words[0] == "//go:linkname" {
				note("linkname %s", words[len(words)-1])
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if v := foreign(known, left); v != "" && n.Tok != token.DEFINE {
					note("sets %s", v)
				}
			}
		case *ast.IncDecStmt:
			if v := foreign(known, n.X); v != "" {
				note("sets %s", v)
			}
		case *ast.UnaryExpr:
			if v := foreign(known, n.X); v != "" && n.Op == token.AND {
				note("sets %s", v)
			}
		case *ast.FuncDecl:
			if n.Name.Name == "init" && n.Recv == nil {
				note("init")
			}
			if notesKeys(n) {
				note("notes keys of contexts")
			}
		case *ast.SelectorExpr:
			// Bytes that are never changed become strings, and the other way round: this involves nothing of upstream.
			if x, ok := n.X.(*ast.Ident); ok && known[x.Name] == "unsafe" && !slices.Contains(ofStrings, n.Sel.Name) {
				note("unsafe.%s", n.Sel.Name)
			}
		case *ast.CallExpr:
			for _, r := range reachesOfCall(known, n) {
				note("%s", r)
			}
		}
		return true
	})
	return reaches
}

// notesKeys tells whether a function is the method Value of a context that keeps the key that it is asked for.
func notesKeys(f *ast.FuncDecl) (notes bool) {
	if f.Recv == nil || f.Name.Name != "Value" || f.Type.Params.NumFields() != 1 || len(f.Type.Params.List[0].Names) != 1 || f.Body == nil {
		return false
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		if set, ok := n.(*ast.AssignStmt); ok {
			notes = notes || slices.ContainsFunc(set.Rhs, func(e ast.Expr) bool {
				id, ok := e.(*ast.Ident)
				return ok && id.Name == f.Type.Params.List[0].Names[0].Name
			})
		}
		return true
	})
	return notes
}

// matches tells whether one of the patterns matches a name.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok || err != nil
	})
}

// reachesOfCall is reachesOf for a call.
func reachesOfCall(known map[string]string, call *ast.CallExpr) (reaches []string) {
	if built, ok := call.Fun.(*ast.Ident); ok && slices.Contains([]string{"append", "clear", "copy", "delete"}, built.Name) && built.Obj == nil {
		if v := foreign(known, call.Args[0]); v != "" {
			reaches = append(reaches, "sets "+v)
		}
	}
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return reaches
	}
	if x, ok := f.X.(*ast.Ident); ok && known[x.Name] == "reflect" && f.Sel.Name == "NewAt" {
		reaches = append(reaches, "reflect.NewAt")
	}
	if (f.Sel.Name == "UnsafePointer" || f.Sel.Name == "UnsafeAddr") && len(call.Args) == 0 {
		reaches = append(reaches, f.Sel.Name)
	}
	if f.Sel.Name == "FieldByName" && len(call.Args) == 1 {
		if name, ok := call.Args[0].(*ast.BasicLit); ok && name.Value[1] >= 'a' {
			reaches = append(reaches, "reads the field "+name.Value)
		}
	}
	callee := foreign(known, f)
	if !strings.Contains(callee, "k8s.io/") {
		return reaches
	}
	switch name := f.Sel.Name; {
	case strings.HasPrefix(name, "New"):
		isNil := func(arg ast.Expr) bool { id, ok := arg.(*ast.Ident); return ok && id.Name == "nil" }
		if slices.ContainsFunc(call.Args, isNil) && !matches(takingNil, callee) {
			return append(reaches, "hands nil to "+callee)
		}
	case slices.ContainsFunc(changing, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) && !slices.Contains(harmless, callee):
		reaches = append(reaches, "calls "+callee)
	}
	return reaches
}

// foreign returns the variable or function of another module with which an expression begins, including a part of it.
func foreign(known map[string]string, e ast.Expr) string {
	name := ""
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			name = "." + x.Sel.Name + name
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.Ident:
			p := known[x.Name]
			// Obj: a variable of this file hides the package.
			if x.Obj != nil || name == "" || !strings.Contains(p, ".") || strings.HasPrefix(p, ours) {
				return ""
			}
			return p + name
		default:
			return ""
		}
	}
}

// TestReachesAreFound checks that the test above finds what it has to find.
func TestReachesAreFound(t *testing.T) {
	for source, want := range map[string]string{
		"import \"unsafe\"\nvar _ = unsafe.String(unsafe.SliceData(b), 1)": "",
		"import \"unsafe\"\nvar _ = unsafe.Pointer(&x)":                    "unsafe.Pointer",
		`import _ "unsafe"`: "",
		"import \"unsafe\"\n//go:linkname a k8s.io/b.c\nvar a int": "linkname k8s.io/b.c",
		"import \"k8s.io/kubernetes/pkg/capabilities\"":            "imports k8s.io/kubernetes/pkg/capabilities",
		"import _ \"k8s.io/kubernetes/pkg/apis/core/install\"":     "imports k8s.io/kubernetes/pkg/apis/core/install",
		"func init() {}": "init",
		"import \"k8s.io/a\"\nfunc f() { a.B = nil }":                                             "sets k8s.io/a.B",
		"import \"k8s.io/a\"\nfunc f() { a.B.C[1] = 2 }":                                          "sets k8s.io/a.B.C",
		"import \"k8s.io/a\"\nfunc f() { a.B++ }":                                                 "sets k8s.io/a.B",
		"import \"k8s.io/a\"\nvar x = &a.B":                                                       "sets k8s.io/a.B",
		"import \"k8s.io/a\"\nvar x = &a.B{}":                                                     "",
		"import \"k8s.io/a\"\nfunc f(a *T) { a.B = nil }":                                         "",
		"import b \"k8s.io/a\"\nvar _ = b.Default.Set(1)":                                         "calls k8s.io/a.Default.Set",
		"import b \"k8s.io/a\"\nvar _ = b.Get(1)":                                                 "",
		"import \"k8s.io/x/storage\"\nvar _, _ = storage.NewREST(g, nil)":                         "hands nil to k8s.io/x/storage.NewREST",
		"import \"k8s.io/x/storage\"\nvar _, _ = storage.NewREST(g)":                              "",
		"import \"k8s.io/x/storage\"\nvar _, _ = storage.NewOther(nil)":                           "hands nil to k8s.io/x/storage.NewOther",
		"import \"k8s.io/client-go/informers/core\"\nvar _ = core.New(f, nil)":                    "",
		"import \"k8s.io/a\"\nfunc f() { delete(a.B, 1); clear(a.C.D) }":                          "sets k8s.io/a.B, sets k8s.io/a.C.D",
		"import \"k8s.io/a\"\nfunc f() { copy(a.B, c); _ = append(a.C[:1], 2) }":                  "sets k8s.io/a.B, sets k8s.io/a.C",
		"import \"k8s.io/a\"\nfunc f() { copy(c, a.B); d = append(c, a.B...) }":                   "",
		"import \"reflect\"\nvar _ = reflect.NewAt(v.Type(), v.Addr().UnsafePointer())":           "reflect.NewAt, UnsafePointer",
		"type c struct{}\nfunc (c *c) Value(key any) any { c.key = key; return nil }":             "notes keys of contexts",
		"type c struct{}\nfunc (c *c) Value(key any) any { return c.Context.Value(key) }":         "",
		"import \"reflect\"\nvar _, _ = reflect.TypeFor[int]().FieldByName(\"s\")":                "reads the field \"s\"",
		"import \"reflect\"\nvar _, _ = reflect.TypeFor[int]().FieldByName(\"Spec\")":             "",
		"import \"github.com/rowlock/rowlock/a\"\nfunc f() { a.B = nil }":                         "",
		"import \"k8s.io/apiserver/pkg/warning\"\nfunc f() { warning.AddWarning(c, \"\", \"\") }": "",
	} {
		file, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+source, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(reachesOf(t, file), ", "); got != want {
			t.Errorf("%s\ngot %s, want %s", source, strconv.Quote(got), strconv.Quote(want))
		}
	}
}
