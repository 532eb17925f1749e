package sqlstore

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rowlock/rowlock/resources/views"
)

// The database has views of the objects for clients that query it without a server: SQL clients, tools that draw
// charts. The server does not depend on them: the store reads only tables, `rowlock sql` has views of its own
// (query.go), a backup has none, and Verify ignores them. So a changed or missing view does no harm, and the server
// creates it again.
//
// The views contain neither values of a Secret's data nor the server's own rows. An encrypted row has its names, and
// NULL in all other columns.

// SharedViews are the names of the views of all resources.
func SharedViews() []string { return slices.Clone(sharedViews) }

// ErrViewsRefused says that the database's user may not create views in their place.
var ErrViewsRefused = errors.New("the views for SQL cannot be made")

// sharedViews are the names of the views of all resources, in both databases. None can be the name of a resource, which
// has no underscore.
var sharedViews = []string{"all_objects", "all_owners", "all_changes", "pod_images"}

// KeepViews makes the database have the views wanted, whose names differ, and those of all resources; if wanted is
// empty, it has none. Only views that differ are written. A name that is taken by somebody else is left alone. left
// has, by name, the errors of the views that could not be brought up to date: the database refuses them, or somebody
// reads them meanwhile. They do not keep other views from being created, and the next call tries them again.
//
// Errors: resources.ErrUnavailable, resources.ErrClosed; ErrViewsRefused; those of ctx.
func (s *Store) KeepViews(ctx context.Context, wanted []views.View) (left map[string]error, err error) {
	return s.db.keepViews(ctx, wanted, s.onCommitter)
}

// definedView is a view and its statement.
type definedView struct{ name, query string }

// errZero says that a statement has U+0000, which ends the text for a database. The rest would be ignored.
var errZero = errors.New("it has the character U+0000")

// sayable refuses a view whose statement cannot be passed to a database.
func (v definedView) sayable() error {
	if strings.Contains(v.name+v.query, "\x00") {
		return errZero
	}
	return nil
}

// viewDialect writes the statements of views for a database.
type viewDialect interface {
	// query returns the statement of a view of one resource.
	query(v views.View) string
	// shared returns the statement of one of sharedViews.
	shared(name string) string
}

// defineViews returns all views with their statements.
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

// textSQL quotes a string.
func textSQL(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// nameSQL quotes a name.
func nameSQL(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// ofObject puts an object and a path into the SQL of a value.
func ofObject(text, object, path string) string {
	return strings.NewReplacer("OBJECT", object, "PATH", path).Replace(text)
}

// jsonColumns writes the columns that all views of a resource have, around the view's own.
type jsonColumns struct {
	// column returns the value at a path of an object.
	column func(views.Column) string
	// age returns how many seconds ago a time in text form was; owner returns a value of the owner reference.
	age   func(time string) string
	owner func(value string) string
}

// creation is the time at which an object was created.
var creation = views.Column{Kind: views.Text, Path: views.Members("metadata", "creationTimestamp")}

// list returns the columns that a view selects of a row whose object is o. annotations is the expression for the
// annotations; kind and reference are those for the owner's name with its kind, and for its UID. A view of Secrets has
// no column object.
func (j jsonColumns) list(v views.View, annotations, kind, reference string) string {
	at := func(kind views.Kind, path ...string) string {
		return j.column(views.Column{Kind: kind, Path: views.Members(path...)})
	}
	created := j.column(creation)
	all := [][2]string{{"namespace", "namespace"}, {"name", "name"}, {"created", created}, {"age", j.age(created)}}
	for _, c := range v.Columns {
		all = append(all, [2]string{c.Name, j.column(c)})
	}
	all = append(all, [][2]string{{"labels", at(views.JSON, "metadata", "labels")}, {"annotations", annotations}, {"owner", j.owner(kind)}, {"owner_uid", j.owner(reference)},
		{"deleting_since", at(views.Text, "metadata", "deletionTimestamp")}, {"uid", at(views.Text, "metadata", "uid")}, {"resource_version", "revision"},
		{"spec", at(views.JSON, "spec")}, {"status", at(views.JSON, "status")}, {"object", "o"}}...)
	if v.Secret {
		all = all[:len(all)-1]
	}
	var b strings.Builder
	for i, c := range all {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(c[1] + " AS " + nameSQL(c[0]))
	}
	return b.String()
}
