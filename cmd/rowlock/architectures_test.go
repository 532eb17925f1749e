package main

import (
	"encoding/json"
	"errors"
	"go/ast"
	goimporter "go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Packages are also built for 32 bits (armv7), where an int is not an int64. Compiling the whole program for that takes minutes. This test
// therefore checks only the types of this module's packages, against the export data of other packages for this machine: it misses a type of
// another package that is smaller on 32 bits.
func TestCompilesFor32Bits(t *testing.T) {
	t.Parallel()
	exports := map[string]string{}
	for _, p := range listed(t, os.Environ(), "-export", "-deps") {
		exports[p.ImportPath] = p.Export
	}
	files := token.NewFileSet()
	imports := &importing{of: goimporter.ForCompiler(files, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	checked := 0
	for _, p := range listed(t, append(os.Environ(), "GOARCH=arm"), "-deps") {
		if p.ImportPath != "math" && !strings.HasPrefix(p.ImportPath, "github.com/rowlock/rowlock") {
			continue
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(files, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		config := types.Config{Importer: imports, Sizes: types.SizesFor("gc", "arm"), Error: func(err error) { t.Error(err) }}
		checkedPackage, _ := config.Check(p.ImportPath, files, parsed, nil) // errors were reported already
		if p.ImportPath == "math" {
			imports.math = checkedPackage
		}
		checked++
	}
	if checked < 50 {
		t.Errorf("%d packages were checked", checked)
	}
}

// importing imports packages compiled for this machine, except math, whose int constants are those of 32 bits.
type importing struct {
	of   types.Importer
	math *types.Package
}

func (i *importing) Import(path string) (*types.Package, error) {
	if path == "math" && i.math != nil {
		return i.math, nil
	}
	return i.of.Import(path)
}

type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// listed returns the packages of the program according to go list.
func listed(t *testing.T, environment []string, flags ...string) (packages []listedPackage) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append(append([]string{"list", "-json=ImportPath,Dir,Export,GoFiles"}, flags...), ".")...)
	list.Env, list.Stderr = environment, os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
