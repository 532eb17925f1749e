package views

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/rowlock/rowlock/resources"
)

// builtinColumns lists the columns of built-in types that kubectl prints by the same names (see columnNames), together with a few that it does not
// print so: seconds and times where it prints a time span, and other names for keywords of SQL. A column is its name, its kind and its paths, whose
// members are separated by dots; between the paths of a found one stand the member and its value. A computed one has the name of what is computed.
//
//go:embed builtin.txt
var builtinColumns string

// builtin returns the columns of built-in types by resource.
var builtin = sync.OnceValue(func() map[string][]Column {
	all, resource := map[string][]Column{}, ""
	for line := range strings.Lines(builtinColumns) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1:
			resource = words[0]
		case len(words) > 1:
			all[resource] = append(all[resource], column(words[0], Kind(words[1]), words[2:]))
		}
	}
	return all
})

func column(name string, kind Kind, of []string) Column {
	c := Column{Name: name, Kind: kind}
	switch {
	case kind == Computed:
		c.Value = strings.Join(of, " ")
		return c
	case kind == Find:
		c.Member, c.Value, c.Other = of[1], of[2], dotted(of[3])
	case len(of) > 1:
		c.Other = dotted(of[1])
	}
	c.Path = dotted(of[0])
	return c
}

func dotted(path string) Path { return Members(strings.Split(path, ".")...) }

// secrets is the resource whose data views must not show.
const secrets = "secrets"

// OfBuiltin returns the view of a built-in type.
func OfBuiltin(resource string) View {
	return View{Name: viewName(resource), Resource: resource, Secret: resource == secrets, Columns: builtin()[resource]}
}

// OfCatalog returns the views of the stored built-in types in a catalog.
func OfCatalog(catalog *resources.Catalog) (views []View) {
	seen := map[string]bool{}
	for t := range catalog.Types {
		if name := t.ResourceName(); !t.Untyped && t.Stored() && !seen[name] {
			seen[name] = true
			views = append(views, OfBuiltin(name))
		}
	}
	return views
}
