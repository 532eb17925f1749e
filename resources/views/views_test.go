package views

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// definition is the definition of a custom resource with a column.
func definition(plural, jsonPath string) []byte {
	return []byte(`{"metadata":{"name":"` + plural + `.example.com"},"status":{"conditions":[{"type":"Established","status":"True"}]},
		"spec":{"group":"example.com","names":{"plural":"` + plural + `"},"versions":[{"name":"v1","storage":true,"additionalPrinterColumns":[{"name":"A","type":"string","jsonPath":"` + jsonPath + `"}]}]}}`)
}

// A column exists when its JSONPath leads to one value, and can be written in SQL: no statement has U+0000.
func TestColumnsOfDefinition(t *testing.T) {
	for path, want := range map[string]bool{
		`.spec.a`: true, `.status.conditions[?(@.type=='Ready')].status`: true, `.spec['a.b'][0]`: true,
		`.status.conditions[?(@.type=='Re\u0000ady')].status`: false, `.spec.a\u0000`: false, `.spec['a\u0000']`: false, `.spec.a[*]`: false, `.a\"b`: false,
	} {
		v, ok := OfDefinition(definition("things", path))
		if !ok || len(v.Columns) == 1 != want {
			t.Errorf("%s: %+v, %t", path, v, ok)
		}
	}
}

// Letters of any script stay in the name of a column, which is cut between two of them. A name that is used already gets a number.
func TestColumnNames(t *testing.T) {
	names := columnNames{}
	for _, c := range [][2]string{{"Up To-Date", "up_to_date"}, {"Größe", "größe"}, {"GRÖSSE (m²)", "grösse_m"}, {"名前", "名前"}, {"E\u0301te\u0301", "e\u0301te\u0301"}, {"größe", "größe_2"}, {"Name", "printed_name"},
		{"→", ""}, {"\u26a0\ufe0f", ""}, {"\xff", ""}, {strings.Repeat("д", 40), strings.Repeat("д", 31)},
		{"größe 3", "größe_3"}, {"größe", "größe_4"}, {"größe_2", "größe_2_2"}, {strings.Repeat("д", 50), strings.Repeat("д", 30) + "_2"}} {
		if got := names.next(c[0]); got != c[1] {
			t.Errorf("%q is called %q, want %q", c[0], got, c[1])
		}
	}
}

// Views of different resources have different names, also where a user has chosen names that are cut to the same one, and the names do not depend on
// the order. A resource has one view.
func TestTogether(t *testing.T) {
	found := map[string]string{}
	var same [2]View
	for i := 0; same[0].Name == ""; i++ {
		resource := fmt.Sprintf("%s.%d.example.com", strings.Repeat("a", nameMax), i)
		if other, ok := found[viewName(resource)]; ok {
			same = [2]View{OfBuiltin(other), OfBuiltin(resource)}
		}
		found[viewName(resource)] = resource
	}
	if same[0].Name != same[1].Name {
		t.Fatalf("%q and %q", same[0].Name, same[1].Name)
	}
	names := func(all ...View) map[string]string {
		of := map[string]string{}
		for _, v := range Together(all) {
			if len(v.Name) > nameMax || of[v.Name] != "" {
				t.Errorf("the name %q of %s is of %q, too", v.Name, v.Resource, of[v.Name])
			}
			of[v.Name] = v.Resource
		}
		return of
	}
	pods, defined := OfBuiltin("pods"), OfBuiltin("pods")
	defined.Columns = nil
	one, other := names(same[0], pods, same[1], defined), names(defined, same[1], pods, same[0])
	if len(one) != 3 || fmt.Sprint(one) != fmt.Sprint(other) {
		t.Errorf("%q, and in another order %q", one, other)
	}
	if together := Together([]View{pods, defined}); len(together) != 1 || !together[0].same(pods) {
		t.Errorf("of one resource there are %+v", together)
	}
	if alone := Together([]View{same[1], pods}); !slices.ContainsFunc(alone, same[1].same) {
		t.Errorf("without another one it is %q", alone[0].Name)
	}
}

// Failed views are tried again at increasing intervals, until none is left; each error is logged once.
func TestLeft(t *testing.T) {
	var log strings.Builder
	logger, l := slog.New(slog.NewTextHandler(&log, nil)), Left{}
	left := map[string]error{"pods": errors.New("it is read")}
	last := l.Again(logger, left)
	for range 20 {
		pause := l.Again(logger, left)
		if pause < last || pause > againLast {
			t.Errorf("after %v it is tried again in %v", last, pause)
		}
		last = pause
	}
	if lines := strings.Count(log.String(), "\n"); last != againLast || lines != 1 {
		t.Errorf("%v, %d lines: %s", last, lines, &log)
	}
	if pause := l.Again(logger, nil); pause != 0 {
		t.Errorf("where none is left it is tried again in %v", pause)
	}
	if pause := l.Again(logger, left); pause != againFirst || strings.Count(log.String(), "\n") != 2 {
		t.Errorf("again %v: %s", pause, &log)
	}
}
