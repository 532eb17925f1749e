package upstream

import (
	"go/ast"
	"path/filepath"
	"testing"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestPoolOfHTTP2Buffers: the variable to which server/cork links has the type that is declared there, which the linker
// does not compare.
func TestPoolOfHTTP2Buffers(t *testing.T) {
	dir := upstreamtest.ModuleDir(t, "golang.org/x/net")
	value, _ := upstreamtest.Variable(t, []*ast.File{upstreamtest.ParseFile(t, filepath.Join(dir, "http2", "http2.go"))}, "bufWriterPool")
	literal, ok := value.(*ast.CompositeLit)
	if !ok {
		t.Fatalf("the pool is a %T", value)
	}
	if of, ok := literal.Type.(*ast.SelectorExpr); !ok || of.X.(*ast.Ident).Name != "sync" || of.Sel.Name != "Pool" {
		t.Errorf("the pool is a %v", literal.Type)
	}
}
