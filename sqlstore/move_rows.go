package sqlstore

import (
	"context"
	"database/sql"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const (
	// rowsTogether is how many rows a statement inserts: each of their columns is a parameter, of which SQLite takes
	// 32,766.
	rowsTogether = 500
	// bytesTogether bounds the rows that wait to be inserted, in bytes.
	bytesTogether = 8 << 20
)

// rowWriter writes rows into a table of the target, many per statement, and replaces rows with the same keys.
type rowWriter struct {
	tx      *sql.Tx
	table   *sourceTable
	into    string // the name of the table in the target
	columns []string
	waiting []any
	rows    int
	bytes   int
}

// columnsAre sets the columns of the next rows.
func (w *rowWriter) columnsAre(_ string, columns []string) error {
	w.columns = columns
	return nil
}

// put writes a row, or queues it.
func (w *rowWriter) put(ctx context.Context, row []any) error {
	for _, value := range row {
		switch v := value.(type) {
		case string:
			w.bytes += len(v)
		case []byte:
			w.bytes += len(v)
		}
	}
	w.waiting, w.rows = append(w.waiting, row...), w.rows+1
	if w.rows < rowsTogether && w.bytes < bytesTogether {
		return nil
	}
	return w.flush(ctx)
}

// flush writes the queued rows.
func (w *rowWriter) flush(ctx context.Context) error {
	if w.rows == 0 {
		return nil
	}
	_, err := w.tx.ExecContext(ctx, w.statement(w.rows), w.waiting...)
	w.waiting, w.rows, w.bytes = w.waiting[:0], 0, 0
	return err
}

func (w *rowWriter) statement(rows int) string {
	var b strings.Builder
	b.WriteString("INSERT INTO " + w.into + " (" + quotedList(w.columns) + ") VALUES ")
	place := 0
	for row := range rows {
		if row > 0 {
			b.WriteString(", ")
		}
		for i := range w.columns {
			if place++; i > 0 {
				b.WriteString(", $")
			} else {
				b.WriteString("($")
			}
			b.WriteString(strconv.Itoa(place))
		}
		b.WriteString(")")
	}
	b.WriteString(" ON CONFLICT (" + w.table.keys + ") DO UPDATE SET ")
	for i, column := range w.columns {
		if i > 0 {
			b.WriteString(", ")
		}
		quoted := pgx.Identifier{column}.Sanitize()
		b.WriteString(quoted + " = excluded." + quoted)
	}
	return b.String()
}

// remove deletes a row.
func (w *rowWriter) remove(ctx context.Context, key []any) error {
	conditions := strings.Split(w.table.keys, ", ")
	for i := range conditions {
		conditions[i] += " = $" + strconv.Itoa(i+1)
	}
	_, err := w.tx.ExecContext(ctx, "DELETE FROM "+w.into+" WHERE "+strings.Join(conditions, " AND "), key...)
	return err
}
