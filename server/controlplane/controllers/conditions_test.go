package controllers

import (
	"errors"
	"fmt"
	"go/ast"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	"github.com/rowlock/rowlock/resources/upstream/upstreamtest"
)

// TestConditionsAreUpstreams compares the conditions of a namespace that is being deleted, and their texts, with those in the source of
// kube-controller-manager.
func TestConditionsAreUpstreams(t *testing.T) {
	files, types := upstreamtest.ParsePackage(t, "k8s.io/kubernetes/pkg/controller/namespace/deletion"), upstreamtest.ParsePackage(t, "k8s.io/api/core/v1")
	kind := func(e ast.Expr) string {
		value, _ := upstreamtest.Variable(t, types, e.(*ast.SelectorExpr).Sel.Name)
		return upstreamtest.Text(t, value)
	}
	texts := func(name string) map[string]string {
		all := map[string]string{}
		value, _ := upstreamtest.Variable(t, files, name)
		for _, e := range value.(*ast.CompositeLit).Elts {
			pair := e.(*ast.KeyValueExpr)
			all[kind(pair.Key)] = upstreamtest.Text(t, pair.Value)
		}
		return all
	}
	order, _ := upstreamtest.Variable(t, files, "conditionTypes")
	good, goodReasons, bad, formats := texts("okMessages"), texts("okReasons"), badOf(t, files, kind), formatsOf(t, files)
	left := &remaining{
		unknown:    map[schema.GroupVersion]error{{Group: "g", Version: "v1"}: errors.New("away")},
		failures:   []error{errors.New("one"), errors.New("other")},
		count:      map[schema.GroupResource]int{{Group: "g", Resource: "a"}: 2},
		finalizers: map[string]int{"x/y": 3},
	}
	messages := map[string]string{
		"NamespaceDeletionDiscoveryFailure": fmt.Sprintf(formats[0], 1, &discovery.ErrGroupDiscoveryFailed{Groups: left.unknown}),
		"NamespaceContentRemaining":         fmt.Sprintf(formats[2], fmt.Sprintf(formats[1], "a", "g", 2)),
		"NamespaceFinalizersRemaining":      fmt.Sprintf(formats[4], fmt.Sprintf(formats[3], "x/y", 3)),
		"NamespaceDeletionContentFailure":   fmt.Sprintf(formats[5], 2, "one, other"),
	}
	var want, got [][]string
	for _, e := range order.(*ast.CompositeLit).Elts {
		k := kind(e)
		if k == "NamespaceDeletionGroupVersionParsingFailure" { // every version here can be parsed
			bad[k] = ""
		}
		want = append(want, []string{k, goodReasons[k], good[k], bad[k], messages[k]})
	}
	for _, c := range conditions {
		message := ""
		if c.bad != nil {
			message = c.bad(left)
		}
		got = append(got, []string{string(c.kind), c.goodReason, c.good, c.badReason, message})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("conditions (-upstream +ours): %s", diff)
	}
}

// badOf returns the reasons of the conditions that a package makes, by their types.
func badOf(t *testing.T, files []*ast.File, kind func(ast.Expr) string) map[string]string {
	t.Helper()
	reasons := map[string]string{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			made, ok := n.(*ast.CompositeLit)
			if !ok {
				return true
			}
			fields := map[string]ast.Expr{}
			for _, e := range made.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					if id, ok := pair.Key.(*ast.Ident); ok {
						fields[id.Name] = pair.Value
					}
				}
			}
			if reason, ok := fields["Reason"].(*ast.BasicLit); ok {
				reasons[kind(fields["Type"])] = upstreamtest.Text(t, reason)
			}
			return true
		})
	}
	return reasons
}

// formatsOf returns the formats of the texts in upstream's file of conditions, in their order.
func formatsOf(t *testing.T, files []*ast.File) (formats []string) {
	t.Helper()
	i := slices.IndexFunc(files, func(f *ast.File) bool {
		return slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Name.Name == "ProcessContentTotals"
		})
	})
	ast.Inspect(files[i], func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Sprintf" {
				formats = append(formats, upstreamtest.Text(t, call.Args[0]))
			}
		}
		return true
	})
	if len(formats) != 6 {
		t.Fatalf("texts are made by %q", strings.Join(formats, "\n"))
	}
	return formats
}
