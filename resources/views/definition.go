package views

import "github.com/tidwall/gjson"

// creation is the JSONPath of a column that all views have.
const creation = ".metadata.creationTimestamp"

// mostColumns is the greatest number of columns of a definition in its view, besides those of all views: Postgres has 1,600 in a view, SQLite
// 2,000, and `rowlock sql` 1,000 in an answer, which are arguments of a function.
const mostColumns = 900

// OfDefinition returns the view of the type of a CustomResourceDefinition, given in its stored form; false: it is not established, or is being
// deleted. The columns are those of the storage version, without those whose JSONPath is not supported and those beyond mostColumns.
func OfDefinition(definition []byte) (View, bool) {
	d := gjson.ParseBytes(definition)
	if d.Get("metadata.deletionTimestamp").String() != "" || d.Get(`status.conditions.#(type=="Established").status`).String() != "True" {
		return View{}, false
	}
	resource := d.Get("spec.names.plural").String() + "." + d.Get("spec.group").String()
	v := View{Name: viewName(resource), Resource: resource}
	names := columnNames{}
	for _, c := range d.Get("spec.versions.#(storage==true).additionalPrinterColumns").Array() {
		if len(v.Columns) == mostColumns {
			break
		}
		if column, ok := ofPrinterColumn(names, c); ok {
			v.Columns = append(v.Columns, column)
		}
	}
	return v, true
}

func ofPrinterColumn(names columnNames, c gjson.Result) (Column, bool) {
	p, ok := parse(c.Get("jsonPath").String())
	if !ok || c.Get("jsonPath").String() == creation {
		return Column{}, false
	}
	name := names.next(c.Get("name").String())
	if name == "" {
		return Column{}, false
	}
	kind := Text
	switch c.Get("type").String() {
	case "integer", "number":
		kind = Number
	case "boolean":
		kind = Bool
	}
	if p.found {
		return Column{Name: name, Kind: Find, Path: p.path, Other: p.rest, Member: p.member, Value: p.value, Found: kind}, true
	}
	return Column{Name: name, Kind: kind, Path: p.path}, true
}
