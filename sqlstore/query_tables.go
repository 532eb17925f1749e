package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiserver/pkg/storage/value"
	"modernc.org/sqlite/vtab"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/views"
)

// queryTables are the tables objects and changes of a query: rows of a Source, without the server's own rows (isHidden)
// and without the values of Secrets (withoutSecrets). They are read in pages, so that several can be read at a time
// through the one connection to Postgres that sees the state.
type queryTables struct {
	source *Source
	ctx    context.Context //nolint:containedctx // SQLite's callbacks during a query get no context
	// failure is the error of reading the database. SQLite passes on only its text.
	failure error
}

const (
	// queryPage is how many rows are read at a time at most, and queryBytes how many bytes of them, not counting the
	// last row.
	queryPage  = 256
	queryBytes = 4 << 20
)

// rowsTable is a table of a query, and rowsCursor a cursor that reads it.
type (
	rowsTable struct {
		*queryTables
		// bound is how many columns, from the first on, can be restricted to one value. wide is the number of the
		// expensive column.
		bound, wide int
		fetch       func(c *rowsCursor) ([][]vtab.Value, error)
	}
	rowsCursor struct {
		*rowsTable
		equal  []*string // required values of the first columns; nil: any value
		narrow bool      // the wide column is not needed
		page   [][]vtab.Value
		at     int
		last   []vtab.Value // of the previous page; nil: there is none
		limit  int          // how many rows the next page has at most; 0: queryPage
		inLog  bool         // of changes: the object history was read, and the log is next
		over   bool
	}
)

// objectRows and changeRows create the tables.
type (
	objectRows struct{ *queryTables }
	changeRows struct{ *queryTables }
)

const (
	// The columns of objects.
	objectRevision = iota + 3
	objectBytes
	objectEncrypted
	objectData
)

// Create implements vtab.Module.
func (m objectRows) Create(c vtab.Context, _ []string) (vtab.Table, error) {
	t := &rowsTable{queryTables: m.queryTables, bound: 3, wide: objectData, fetch: (*rowsCursor).objects}
	return t, c.Declare("CREATE TABLE objects (resource TEXT, namespace TEXT, name TEXT, revision INTEGER, bytes INTEGER, encrypted INTEGER, data TEXT)")
}

// Connect implements vtab.Module.
func (m objectRows) Connect(c vtab.Context, args []string) (vtab.Table, error) {
	return m.Create(c, args)
}

// Create implements vtab.Module.
func (m changeRows) Create(c vtab.Context, _ []string) (vtab.Table, error) {
	t := &rowsTable{queryTables: m.queryTables, wide: -1, fetch: (*rowsCursor).changes}
	return t, c.Declare("CREATE TABLE changes (revision INTEGER, at INTEGER, op TEXT, resource TEXT, namespace TEXT, name TEXT, author TEXT, fields TEXT)")
}

// Connect implements vtab.Module.
func (m changeRows) Connect(c vtab.Context, args []string) (vtab.Table, error) {
	return m.Create(c, args)
}

// BestIndex implements vtab.Table: it says which of the first columns can restrict the rows. SQLite checks the rows
// again.
func (t *rowsTable) BestIndex(info *vtab.IndexInfo) error {
	info.EstimatedCost, info.EstimatedRows = 1e6, 1e5
	args := 0
	for column := range t.bound {
		for i := range info.Constraints {
			if c := &info.Constraints[i]; c.Column == column && c.Op == vtab.OpEQ && c.Usable {
				c.ArgIndex = args
				args++
				info.IdxNum |= 1 << column
				info.EstimatedCost /= 30
				info.EstimatedRows /= 30
				break
			}
		}
	}
	if t.wide >= 0 && info.ColUsed&(1<<t.wide) == 0 {
		info.IdxNum |= 1 << t.bound
	}
	return nil
}

// Open implements vtab.Table.
func (t *rowsTable) Open() (vtab.Cursor, error) { return &rowsCursor{rowsTable: t}, nil }

// Disconnect implements vtab.Table.
func (t *rowsTable) Disconnect() error { return nil }

// Destroy implements vtab.Table.
func (t *rowsTable) Destroy() error { return nil }

// Filter implements vtab.Cursor.
func (c *rowsCursor) Filter(index int, _ string, values []vtab.Value) error {
	*c = rowsCursor{rowsTable: c.rowsTable, equal: make([]*string, c.bound), narrow: index&(1<<c.bound) != 0}
	for column, next := 0, 0; column < c.bound; column++ {
		if index&(1<<column) == 0 {
			continue
		}
		if s, ok := values[next].(string); ok {
			c.equal[column] = &s
		}
		next++
	}
	return c.turn()
}

// turn reads the next page.
func (c *rowsCursor) turn() error {
	page, err := c.fetch(c)
	if err != nil {
		c.failure = err
		return err
	}
	c.page, c.at = page, 0
	return nil
}

// Next implements vtab.Cursor.
func (c *rowsCursor) Next() error {
	if c.at++; c.at < len(c.page) || c.over {
		return nil
	}
	return c.turn()
}

// Eof implements vtab.Cursor.
func (c *rowsCursor) Eof() bool { return c.at >= len(c.page) } //nolint:staticcheck // the interface has the name

// Column implements vtab.Cursor.
func (c *rowsCursor) Column(column int) (vtab.Value, error) { return c.page[c.at][column], nil }

// Rowid implements vtab.Cursor: nothing asks for it.
func (c *rowsCursor) Rowid() (int64, error) { return int64(c.at), nil }

// Close implements vtab.Cursor.
func (c *rowsCursor) Close() error { return nil }

// read returns the next page of a statement. If rows are hidden, a page may be empty without being the last one. After
// a page with too many bytes the next one has fewer rows: Postgres sends all rows that a statement asks for.
func (c *rowsCursor) read(statement string, args []any, row func(*sql.Rows) (values []vtab.Value, shown bool, err error)) (page [][]vtab.Value, err error) {
	limit := cmp.Or(c.limit, queryPage)
	rows, err := c.source.tx.QueryContext(c.ctx, fmt.Sprintf("%s LIMIT %d", statement, limit), args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // rows.Err reports the error
	n, bytes := 0, 0
	for ; bytes < queryBytes && rows.Next(); n++ {
		values, shown, err := row(rows)
		if err != nil {
			return nil, err
		}
		if c.last = values; shown {
			page = append(page, values)
		}
		bytes += textOf(values)
	}
	if c.limit = min(2*limit, queryPage); bytes >= queryBytes {
		c.limit = n
	}
	c.over = n < limit && bytes < queryBytes
	return page, rows.Err()
}

// textOf returns how many bytes the texts of a row have.
func textOf(values []vtab.Value) (n int) {
	for _, v := range values {
		if text, ok := v.(string); ok {
			n += len(text)
		}
	}
	return n
}

// objects reads a page of the table objects.
func (c *rowsCursor) objects() (page [][]vtab.Value, err error) {
	for len(page) == 0 && !c.over && err == nil {
		data := "data"
		if c.narrow {
			data = "substr(data, 1, 8)"
		}
		statement, args := "SELECT resource, namespace, name, revision, fields, octet_length(data), "+data+" FROM objects WHERE true", []any{}
		arg := func(v any) string {
			args = append(args, v)
			return fmt.Sprintf("$%d", len(args))
		}
		for i, column := range []string{"resource", "namespace", "name"} {
			if c.equal[i] != nil {
				statement += " AND " + column + " = " + arg(*c.equal[i])
			}
		}
		if c.last != nil {
			statement += " AND (resource, namespace, name) > (" + arg(c.last[0]) + ", " + arg(c.last[1]) + ", " + arg(c.last[2]) + ")"
		}
		page, err = c.read(statement+" ORDER BY resource, namespace, name", args, c.object)
	}
	return page, err
}

func (c *rowsCursor) object(rows *sql.Rows) ([]vtab.Value, bool, error) {
	var key resources.Key
	var revision, bytes int64
	var row sealed
	if err := rows.Scan(&key.Resource, &key.Namespace, &key.Name, &revision, &row.fields, &bytes, &row.data); err != nil {
		return nil, false, err
	}
	var encrypted int64
	if isSealed(row.data) {
		encrypted = 1
	}
	values := []vtab.Value{key.Resource, key.Namespace, key.Name, revision, bytes, encrypted, nil}
	if isHidden(key.Resource) || c.narrow {
		return values, !isHidden(key.Resource), nil
	}
	plain, err := c.source.plain(c.ctx, key, row)
	if err == nil {
		plain, err = withoutSecrets(key.Resource, plain)
	}
	if err == nil {
		values[objectData] = withoutNUL(string(plain))
	}
	return values, true, c.ctx.Err() // an object that cannot be read has no data
}

// withoutNUL replaces U+0000 in JSON by U+FFFD, as the views in Postgres do: SQLite would cut the string there.
func withoutNUL(data string) string {
	const nul, instead = `\u0000`, `\ufffd`
	var out strings.Builder
	from := 0
	for at := 0; ; {
		i := strings.Index(data[at:], nul)
		if i < 0 {
			break
		}
		i += at
		at = i + len(nul)
		if before := data[:i]; (len(before)-len(strings.TrimRight(before, `\`)))%2 == 0 { // else the backslash is escaped, and letters follow
			out.WriteString(data[from:i] + instead)
			from = at
		}
	}
	if from == 0 {
		return data
	}
	return out.String() + data[from:]
}

// plain returns the decrypted data of a row.
func (s *Source) plain(ctx context.Context, key resources.Key, row sealed) ([]byte, error) {
	if !isSealed(row.data) {
		return []byte(row.data), nil
	}
	data, _, err := s.sealer.openMany(ctx, key, row, &s.failing)
	return data, err
}

// Decrypt returns a row decrypted, as a server with Options.Transformers would read it. Errors: those of the
// transformer.
func (s *Source) Decrypt(ctx context.Context, r Row) (Row, error) {
	if !s.sealer.opens(r.Data) {
		return r, nil
	}
	row := sealed{data: r.Data}
	if r.Fields != nil {
		row.fields = sql.NullString{String: *r.Fields, Valid: true}
	}
	data, fields, err := s.sealer.openMany(ctx, r.Key, row, &s.failing)
	if err != nil {
		return r, err
	}
	r.Data, r.Fields = string(data), nil
	if fields.Valid {
		r.Fields = &fields.String
	}
	return r, nil
}

// Decrypter returns a Source without a database, which only serves Decrypt: for the rows of a backup, with the
// Options.Transformers of its store.
func Decrypter(by value.ResourceTransformers) *Source {
	return &Source{sealer: &sealer{transformers: by}}
}

// isHidden reports whether the rows of a resource are the server's own.
func isHidden(resource string) bool { return strings.HasSuffix(resource, internalRows) }

// withoutSecrets returns an object without the values of a Secret's data.
func withoutSecrets(resource string, data []byte) ([]byte, error) {
	if !views.OfBuiltin(resource).Secret {
		return data, nil
	}
	var o map[string]any
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, err
	}
	for _, member := range []string{"data", "stringData"} {
		if values, ok := o[member].(map[string]any); ok {
			for name := range values {
				values[name] = nil
			}
		}
	}
	if m, ok := o["metadata"].(map[string]any); ok {
		delete(m, "managedFields")
		if annotations, ok := m["annotations"].(map[string]any); ok {
			delete(annotations, views.LastApplied)
		}
	}
	return json.Marshal(o)
}
