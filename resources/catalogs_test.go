package resources_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// presentCatalog lists the functions that take the present catalog (Registry.Catalog), outside of the control plane and of cmd, where no request is
// answered. All others take that of the request (Registry.CatalogOf), which may be an earlier one: a request that used two could answer with a type
// and refuse it at once.
var presentCatalog = []string{
	// The request takes it here, or finds out whether its own is outdated.
	"server/chain.go Server.withRequestInfo", "server/handlers/route.go Handlers.laterTypes", "server/handlers/route.go Handlers.outdated",
	"resources/registry.go Registry.CatalogOf",
	// Lists of paths and documents about all groups are no requests for resources, whose context has none.
	"server/openapi/handler.go Handler.ServeHTTP", "server/discovery/external.go Handler.shown", "server/index.go Server.paths",
	// Watches release theirs once they have begun.
	"server/handlers/watch_events.go watchStream.end", "server/handlers/watch_events.go watchStream.follow",
	// Methods of upstream's interfaces without a context.
	"resources/mapper.go Mapper.RESTMappings", "resources/mapper.go Mapper.KindsFor", "resources/builtin/admissionregistration.go kindsOf.Resolve",
	"resources/admission/policies_mutating.go typeConverters.GetTypeConverter", "server/flow_width.go Server.objectStats",
	// Beside requests: changes of the registry, followers, metrics, memory, tools.
	"resources/registry.go Registry.Edit", "resources/follow/stream.go stream.adopt", "resources/follow/stream.go stream.readAgain",
	"resources/views/keep.go Keeper.Run", "server/aggregate/sources.go sources.Observe",
	"server/metrics_ended.go Server.forget", "server/metrics_stored.go storedObjects.Collect", "server/handlers/watch_counts.go Handlers.Forget",
	"server/openapi/handler.go Handler.Rest", "server/openapi/recent.go source.keepRecent", "server/openapi/prepare.go Prepare",
	"resources/imports/imports.go storedTypes", "resources/builtin/builtintest/objects.go StoredTypes",
}

// TestOneCatalogPerRequest finds the calls of Registry.Catalog. A function calls it once at most.
func TestOneCatalogPerRequest(t *testing.T) {
	var found []string
	for _, root := range []string{"resources", "server", "sqlstore"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			switch {
			case err != nil:
				return err
			case d.IsDir() && name == "server/controlplane":
				return filepath.SkipDir
			case d.IsDir(), !strings.HasSuffix(name, ".go"), strings.HasSuffix(name, "_test.go"):
				return nil
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			for _, f := range catalogsIn(file) {
				found = append(found, name+" "+f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(presentCatalog)), slices.Sorted(slices.Values(found))); diff != "" {
		t.Errorf("takers of the present catalog (-listed +found): %s", diff)
	}
}

// catalogsIn returns the functions of a file with calls of Catalog, once for each call.
func catalogsIn(file *ast.File) (found []string) {
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			of := f.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if id, ok := of.(*ast.Ident); ok {
				name = id.Name + "." + name
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Catalog" && !isType(s) {
				found = append(found, name)
			}
			return true
		})
	}
	return found
}

// isType tells whether a selector is the type Catalog of package resources.
func isType(s *ast.SelectorExpr) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "resources"
}
