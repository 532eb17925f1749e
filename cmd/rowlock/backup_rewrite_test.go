package main

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/rowlock/rowlock/sqlstore/archive"
)

// rewritten returns a backup with changed columns and rows of objects.
func rewritten(t *testing.T, data []byte, columns func([]string) []string, row func([]any) []any) []byte {
	t.Helper()
	r, err := archive.NewReader(bytes.NewReader(data), nil)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, r.Header(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for {
		record, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			return b.Bytes()
		case err != nil:
		case record.File != nil:
			err = w.File(*record.File)
		case record.Table != nil:
			err = w.Table(archive.Table{Name: record.Table.Name, Columns: columns(record.Table.Columns)})
		default:
			if changed := row(record.Row); changed != nil {
				err = w.Row(changed)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
