package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/resources/views"
)

// Views of the objects are in the database for whoever asks it without a server: SQL clients, tools that draw charts. They are nobody's
// source: the store reads tables alone, `rowlock sql` has views of its own (query.go), a backup has none, and Verify does not look at them. So whatever
// becomes of them does no harm, and the server makes them again.
//
// No value of a Secret's data is in them, nor the server's own rows. A row that is encrypted has its names, and NULL in all else.

// SharedViews are the names of the views of all resources.
func SharedViews() []string { return slices.Clone(sharedViews) }

// ErrViewsRefused says that the database's user may not make views where they belong.
var ErrViewsRefused = errors.New("the views for SQL cannot be made")

// sharedViews are those of all resources, by their names, as both databases have them. None can be the name of a resource, which has no
// underscore.
var sharedViews = []string{"all_objects", "all_owners", "all_changes", "pod_images"}

// KeepViews makes the views in the database be these, whose names differ, and those of all resources; without any, there are none. Only what is not
// as it should be is written. A name that somebody else has taken stays theirs. left are those, by their names, that are not as they should be: the
// database refuses them, or somebody reads them meanwhile. They keep no others from being made, and the next call tries them again.
//
// Errors: resources.ErrUnavailable, resources.ErrClosed; ErrViewsRefused; those of ctx.
func (s *Store) KeepViews(ctx context.Context, wanted []views.View) (left map[string]error, err error) {
	return s.db.keepViews(ctx, wanted, s.onCommitter)
}

// definedView is a view and the statement that is to be behind it.
type definedView struct{ name, query string }

// errZero says that a statement has U+0000, which ends a text that is handed to a database. What follows it would not be seen.
var errZero = errors.New("it has the character U+0000")

// sayable refuses a view that cannot be said to a database.
func (v definedView) sayable() error {
	if strings.Contains(v.name+v.query, "\x00") {
		return errZero
	}
	return nil
}

// viewDialect is how a database says what a view shows.
type viewDialect interface {
	// query is the statement behind a view of one resource.
	query(v views.View) string
	// shared is that of one of sharedViews.
	shared(name string) string
}

// defineViews writes down all views.
func defineViews(d viewDialect, wanted []views.View) []definedView {
	if len(wanted) == 0 {
		return nil
	}
	defined := make([]definedView, 0, len(wanted)+len(sharedViews))
	for _, v := range wanted {
		defined = append(defined, definedView{v.Name, d.query(v)})
	}
	for _, name := range sharedViews {
		defined = append(defined, definedView{name, d.shared(name)})
	}
	return defined
}

// textSQL is a text in a statement.
func textSQL(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// nameSQL is a name in a statement.
func nameSQL(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// jsonColumns has the columns of all views of a resource, around its own.
type jsonColumns struct {
	// column is a value in an object.
	column func(views.Column) string
	// age is how many seconds ago the time of a text was; owner what leads to the owner of an object.
	age   func(time string) string
	owner func(value string) string
}

// creation is the time at which an object was created.
var creation = views.Column{Kind: views.Text, Path: views.Members("metadata", "creationTimestamp")}

// list is what a view selects, of a row whose object is o. annotations is of those alone, and object may be empty.
func (j jsonColumns) list(v views.View, annotations, kind, reference string) string {
	metadata := func(kind views.Kind, name string) string {
		return j.column(views.Column{Kind: kind, Path: views.Members("metadata", name)})
	}
	var b strings.Builder
	add := func(name, value string) {
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(value + " AS " + nameSQL(name))
	}
	add("namespace", "namespace")
	add("name", "name")
	add("created", j.column(creation))
	add("age", j.age(j.column(creation)))
	for _, c := range v.Columns {
		add(c.Name, j.column(c))
	}
	add("labels", metadata(views.JSON, "labels"))
	add("annotations", annotations)
	add("owner", j.owner(kind))
	add("owner_uid", j.owner(reference))
	add("deleting_since", metadata(views.Text, "deletionTimestamp"))
	add("uid", metadata(views.Text, "uid"))
	add("resource_version", "revision")
	add("spec", j.column(views.Column{Kind: views.JSON, Path: views.Members("spec")}))
	add("status", j.column(views.Column{Kind: views.JSON, Path: views.Members("status")}))
	if !v.Secret {
		add("object", "o")
	}
	return b.String()
}
