package resources

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/typedjson"
)

// AgeMark stands in kept cells in place of the age. It cannot come from a printer: JSON escapes the character.
const AgeMark = "\x00"

// usualRow is more than the size of the cells of most objects, in bytes.
const usualRow = 256

// CellsForm is the name of the Object.Form under which the cells of an object are kept; see Type.Cells and Type.FormID.
const CellsForm = "cells"

// Cells returns the beginning of an object's row in a Table, `{"cells":[…]` and the conditions, with AgeMark for the
// age. It returns nothing when another cell changes with the clock: PrintRow then has to print the row each time.
func (t *Type) Cells(hub runtime.Object) ([]byte, error) {
	if t.Table == nil || t.TableTimeDependent || !fastpath.Cells.On() {
		return nil, nil
	}
	row, err := t.PrintRow(hub)
	if err != nil {
		return nil, err
	}
	for _, cell := range row.Cells {
		if s, ok := cell.(string); ok && strings.Contains(s, "ago") {
			return nil, nil
		}
	}
	age := t.ageColumn()
	if age >= len(row.Cells) {
		age = -1
	}
	if age >= 0 {
		m, err := meta.Accessor(hub)
		if err != nil || row.Cells[age] != Age(m.GetCreationTimestamp().Time, time.Now()) {
			return nil, err
		}
		row.Cells[age] = AgeMark
	}
	var buf bytes.Buffer
	buf.Grow(usualRow)
	if err := WriteRow(&buf, row); err != nil {
		return nil, err
	}
	return bytes.Replace(buf.Bytes(), []byte(`"\u0000"`), []byte(`"`+AgeMark+`"`), 1), nil
}

// PrintRow asks the type's printer for the row of an object.
func (t *Type) PrintRow(hub runtime.Object) (*metav1.TableRow, error) {
	table, err := t.Table.ConvertToTable(context.Background(), hub, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		return nil, err
	}
	if len(table.Rows) != 1 {
		return nil, fmt.Errorf("%s has %d table rows for one object", t.GroupResource, len(table.Rows))
	}
	return &table.Rows[0], nil
}

// WriteRow writes a row up to the object in it.
func WriteRow(buf *bytes.Buffer, row *metav1.TableRow) error {
	buf.WriteString(`{"cells":`)
	if cells, ok := typedjson.AppendList(buf.AvailableBuffer(), row.Cells); ok {
		buf.Write(cells)
	} else if err := writeJSON(buf, row.Cells); err != nil {
		return err
	}
	if len(row.Conditions) == 0 {
		return nil
	}
	buf.WriteString(`,"conditions":`)
	return writeJSON(buf, row.Conditions)
}

func writeJSON(buf *bytes.Buffer, v any) error {
	text, err := json.Marshal(v)
	buf.Write(text)
	return err
}

// Age is how upstream's printers write the time since an object was created.
func Age(created, now time.Time) string {
	if created.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created))
}

// ageColumn is the index of the column that shows the time since creation; -1 where there is none.
func (t *Type) ageColumn() int {
	t.age.once.Do(func() {
		t.age.column = -1
		table, err := t.Table.ConvertToTable(context.Background(), t.NewList(), nil)
		if err != nil {
			return
		}
		for i, column := range table.ColumnDefinitions {
			if column.Name == "Age" {
				t.age.column = i
			}
		}
	})
	return t.age.column
}
