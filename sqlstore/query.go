package sqlstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/rowlock/rowlock/resources/views"
)

// A person's query is answered by a SQLite in memory, whatever the database is. It has the same views as the database,
// over tables that read the needed rows from the Source (query_tables.go). So the SQL is the same for both databases;
// encrypted rows are read where the keys are; and no statement of a person reaches the database, which it could change,
// or use to read more than the views show.

// QueryOptions describe a query.
type QueryOptions struct {
	// Views are the views that exist, besides those of all resources.
	Views []views.View
	// Text is one statement that returns rows.
	Text string
	// MaxRows is how many rows are returned at most.
	MaxRows int
	// Refused, if set, is called for each view that cannot be created, with the reason. The query is answered without
	// them.
	Refused func(view string, err error)
	// Columns is called with the column names, before the first row. Row is called with each row, whose values are nil,
	// int64, float64, string or []byte, and may be kept by the callee.
	Columns func([]string) error
	Row     func([]any) error
}

// ErrNotAQuery says that a text is not a single query: statements that write are refused.
var ErrNotAQuery = errors.New("only a single SELECT (or WITH … SELECT, or VALUES) is taken: nothing can be changed here")

// Query answers a person's query. more reports that there are more rows than MaxRows.
//
// Errors: ErrNotAQuery; ErrQueryTooLarge (BoundQueries); those of ctx, which ends the query after its present step
// (which can take minutes); errors of the query; those of the database, and of Row and Columns.
func (s *Source) Query(ctx context.Context, o QueryOptions) (more bool, err error) {
	text, err := oneQuery(o.Text)
	if err != nil {
		return false, err
	}
	q := &asking{QueryOptions: o, tables: &queryTables{source: s, ctx: ctx}, emit: emitFunction + rand.Text()}
	err = q.run(ctx, text)
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case q.failure != nil:
		return false, q.failure
	case tooLarge(err), tooLarge(q.tables.failure):
		return false, ErrQueryTooLarge
	case q.tables.failure != nil:
		return false, fmt.Errorf("read the database: %w", q.tables.failure)
	case err != nil && wouldWrite.MatchString(err.Error()):
		return false, fmt.Errorf("%w (%w)", ErrNotAQuery, err)
	}
	return q.rows > o.MaxRows, err
}

// wouldWrite matches SQLite's errors for a WITH before a statement that is not a query. It only improves the error:
// nothing is written in any case.
var wouldWrite = regexp.MustCompile(`(?i)because it is a view|readonly|near "(insert|update|delete|replace)"`)

// asking is a query that is being answered.
type asking struct {
	QueryOptions
	tables  *queryTables
	emit    string // the name of the function that receives each row
	columns int
	rows    int
	failure error // of Row
}

// memory opens databases of one driver in memory.
type memory struct{ d *sqlite.Driver }

// Connect opens a database. Double-quoted text is a name there, as in Postgres: by default SQLite would take an unknown
// name for a string.
func (m memory) Connect(context.Context) (sqldriver.Conn, error) {
	return m.d.Open("file::memory:?_dqs=0")
}

func (m memory) Driver() sqldriver.Driver { return m.d }

const (
	// emitFunction begins the name of the function that receives each row of the result. A statement can be interrupted
	// only until it returns its first row; with this function the statement returns no row before all are computed. The
	// rest of the name is random, so that nothing else calls it.
	emitFunction = "rowlock_emit_"

	objectsModule, changesModule = "rowlock_objects", "rowlock_changes"

	// valueMost bounds the bytes of a value that a query computes, because it is in memory.
	valueMost = 64 << 20
)

// inQuery are the view settings for the tables of a query.
var inQuery = sqliteViews{bytes: "bytes", encrypted: "encrypted", changes: "changes"}

func (q *asking) run(ctx context.Context, text string) (err error) {
	d := &sqlite.Driver{}
	// As a function's argument, a text does not end at a NUL.
	if err := d.RegisterFunction(q.emit, &sqlite.FunctionImpl{NArgs: -1, VolatileArgs: true, Scalar: q.take}); err != nil {
		return err
	}
	if err := errors.Join(d.RegisterModule(objectsModule, objectRows{q.tables}), d.RegisterModule(changesModule, changeRows{q.tables})); err != nil {
		return err
	}
	db := sql.OpenDB(memory{d})
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := q.prepare(ctx, conn); err != nil {
		return err
	}
	columns, err := columnsOf(ctx, conn, "SELECT * FROM (\n"+text+"\n) LIMIT 0")
	if err != nil {
		return err
	}
	if err := q.Columns(columns); err != nil {
		return err
	}
	q.columns = len(columns)
	names := make([]string, q.columns)
	for i := range names {
		names[i] = fmt.Sprintf("c%d", i)
	}
	list := strings.Join(names, ", ")
	_, err = conn.ExecContext(ctx, fmt.Sprintf("WITH result(%s) AS (\n%s\n) SELECT %s(%s) FROM result LIMIT %d", list, text, q.emit, list, q.MaxRows+1))
	return err
}

// prepare creates tables and views. After that, nothing can be created or changed on the connection, and no other file
// opened.
func (q *asking) prepare(ctx context.Context, conn *sql.Conn) error {
	exec := func(statements ...string) error {
		for _, statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	}
	if err := exec("CREATE VIRTUAL TABLE objects USING "+objectsModule, "CREATE VIRTUAL TABLE changes USING "+changesModule); err != nil {
		return err
	}
	for _, v := range defineViews(inQuery, q.Views) {
		err := v.sayable()
		if err == nil {
			err = exec("CREATE VIEW " + nameSQL(v.name) + " AS " + v.query)
		}
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return err
		}
		if q.Refused != nil {
			q.Refused(v.name, err)
		}
	}
	if err := exec("PRAGMA temp_store = memory", "PRAGMA query_only = true"); err != nil {
		return err
	}
	_, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_ATTACHED, 0)
	if err == nil {
		_, err = sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, valueMost)
	}
	return err
}

func columnsOf(ctx context.Context, conn *sql.Conn, query string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close() //nolint:errcheck // it has no rows
	columns, err := rows.Columns()
	return columns, errors.Join(err, rows.Err())
}

// take receives a row of the result, whose values are SQLite's memory. Rows beyond MaxRows are only counted.
func (q *asking) take(_ *sqlite.FunctionContext, values []sqldriver.Value) (sqldriver.Value, error) {
	if len(values) != q.columns {
		return nil, errors.New("this is no row of the result")
	}
	if q.rows++; q.rows > q.MaxRows || q.failure != nil {
		return nil, q.failure
	}
	row := make([]any, len(values))
	for i, v := range values {
		switch v := v.(type) {
		case string:
			row[i] = strings.Clone(v)
		case []byte:
			row[i] = bytes.Clone(v)
		default:
			row[i] = v
		}
	}
	q.failure = q.Row(row)
	return nil, q.failure
}

// oneQuery returns a statement without the semicolon at its end. Errors: ErrNotAQuery.
func oneQuery(text string) (string, error) {
	first, end := "", len(text)
	for i := 0; i < len(text); {
		rest := text[i:]
		switch n, blank := tokenLength(rest); {
		case blank:
			i += n
		case rest[0] == ';':
			end = min(end, i)
			i++
		case end < len(text): // after a semicolon
			return "", ErrNotAQuery
		default:
			if first == "" {
				first = strings.ToUpper(rest[:n])
			}
			i += n
		}
	}
	switch first {
	case "SELECT", "WITH", "VALUES":
		return text[:end], nil
	case "":
		return "", fmt.Errorf("%w: there is no statement", ErrNotAQuery)
	}
	return "", fmt.Errorf("%w, and no %s", ErrNotAQuery, first)
}

// tokenLength returns the length of a statement's first token, and whether that is blank: white space or a comment.
func tokenLength(s string) (n int, blank bool) {
	through := func(from int, end string) int {
		if i := strings.Index(s[from:], end); i >= 0 {
			return from + i + len(end)
		}
		return len(s)
	}
	isLetter := func(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' }
	switch {
	case strings.HasPrefix(s, "--"):
		return through(2, "\n"), true
	case strings.HasPrefix(s, "/*"):
		return through(2, "*/"), true
	case strings.IndexByte(" \t\r\n\f", s[0]) >= 0:
		return 1, true
	case s[0] == '[':
		return through(1, "]"), false
	case strings.IndexByte("'\"`", s[0]) >= 0:
		return through(1, s[:1]), false // a doubled quote begins the next token
	case isLetter(s[0]):
		for n < len(s) && isLetter(s[n]) {
			n++
		}
		return n, false
	}
	return 1, false
}
