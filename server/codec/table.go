package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/rowlock/rowlock/resources"
)

// table returns the JSON of a Table of the objects ("Receiving resources as Tables" of the API concepts page).
func (r *Renderer) table(objects []*resources.Object, m metav1.ListMeta, headers bool) ([]byte, error) {
	opts := r.Format.Table
	if opts == nil {
		opts = &metav1.TableOptions{}
	}
	head, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	fmt.Fprintf(&buf, `{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":`, r.Format.AsVersion, head)
	columns, err := r.columns()
	if err != nil {
		return nil, err
	}
	if headers && !opts.NoHeaders {
		buf.Write(columns.json)
	} else {
		buf.WriteString("null")
	}
	buf.WriteString(`,"rows":[`)
	now := time.Now()
	for i, o := range objects {
		if i > 0 {
			buf.WriteByte(',')
		}
		if err := r.row(&buf, o, columns.age, opts.IncludeObject, now); err != nil {
			return nil, err
		}
	}
	buf.WriteString("]}")
	return buf.Bytes(), nil
}

type columns struct {
	json []byte
	age  int // index of the column that shows the time since creation; -1 when there is none
}

func (r *Renderer) columns() (columns, error) {
	t, err := r.Served.Table.ConvertToTable(context.Background(), r.Served.NewList(), nil)
	if err != nil {
		return columns{}, err
	}
	c := columns{age: -1}
	for i, col := range t.ColumnDefinitions {
		if col.Name == "Age" {
			c.age = i
		}
	}
	c.json, err = json.Marshal(t.ColumnDefinitions)
	return c, err
}

// row writes one row: its cells, and of the object as much as was asked for.
func (r *Renderer) row(buf *bytes.Buffer, o *resources.Object, age int, include metav1.IncludeObjectPolicy, now time.Time) error {
	if err := r.cells(buf, o, age, now); err != nil {
		return err
	}
	buf.WriteString(`,"object":`)
	switch include {
	case metav1.IncludeNone:
		buf.WriteString("null")
	case metav1.IncludeObject:
		data, err := r.json(o)
		if err != nil {
			return err
		}
		buf.Write(data)
	case metav1.IncludeMetadata, "":
		buf.WriteString(r.partialHead())
		buf.WriteString(gjson.GetBytes(o.Data, "metadata").Raw)
		buf.WriteByte('}')
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("unrecognized includeObject value: %q", include))
	}
	buf.WriteByte('}')
	return nil
}

// ageMark stands in kept cells where the age goes. It cannot come from a printer: JSON escapes the character.
const ageMark = "\x00"

// cells writes `{"cells":[…]` and the row's conditions. They are kept with the object, but for the age, unless something
// else in them changes with the clock.
func (r *Renderer) cells(buf *bytes.Buffer, o *resources.Object, age int, now time.Time) error {
	if r.Served.TableTimeDependent {
		row, _, err := r.printRow(o)
		if err != nil {
			return err
		}
		return writeRow(buf, row)
	}
	var fresh *metav1.TableRow
	kept, err := o.Form("cells", func() ([]byte, error) {
		row, created, err := r.printRow(o)
		if err != nil {
			return nil, err
		}
		fresh = row
		return keepable(row, age, created, time.Now())
	})
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		if fresh == nil {
			if fresh, _, err = r.printRow(o); err != nil {
				return err
			}
		}
		return writeRow(buf, fresh)
	}
	before, after, marked := bytes.Cut(kept, []byte(ageMark))
	buf.Write(before)
	if marked {
		buf.WriteString(since(createdAt(o), now))
		buf.Write(after)
	}
	return nil
}

// printRow asks the type's printer for the row of an object, and tells when the object was created.
func (r *Renderer) printRow(o *resources.Object) (*metav1.TableRow, metav1.Time, error) {
	hub, err := r.Served.DecodeHub(o)
	if err != nil {
		return nil, metav1.Time{}, err
	}
	t, err := r.Served.Table.ConvertToTable(context.Background(), hub, &metav1.TableOptions{NoHeaders: true})
	if err != nil {
		return nil, metav1.Time{}, err
	}
	if len(t.Rows) != 1 {
		return nil, metav1.Time{}, fmt.Errorf("%s has %d table rows", o.Key, len(t.Rows))
	}
	return &t.Rows[0], objectMeta(hub).GetCreationTimestamp(), nil
}

// keepable returns the row with a mark for the age, or nothing when it must be printed anew each time.
func keepable(row *metav1.TableRow, age int, created metav1.Time, now time.Time) ([]byte, error) {
	for _, cell := range row.Cells {
		if s, ok := cell.(string); ok && strings.Contains(s, "ago") {
			return nil, nil
		}
	}
	if age >= 0 && age < len(row.Cells) {
		if row.Cells[age] != since(created, now) {
			return nil, nil
		}
	} else {
		age = -1
	}
	var buf bytes.Buffer
	buf.WriteString(`{"cells":[`)
	for i, cell := range row.Cells {
		if i > 0 {
			buf.WriteByte(',')
		}
		if i == age {
			buf.WriteString(`"` + ageMark + `"`)
			continue
		}
		data, err := json.Marshal(cell)
		if err != nil {
			return nil, err
		}
		buf.Write(data)
	}
	buf.WriteByte(']')
	err := writeConditions(&buf, row)
	return buf.Bytes(), err
}

func writeRow(buf *bytes.Buffer, row *metav1.TableRow) error {
	cells, err := json.Marshal(row.Cells)
	if err != nil {
		return err
	}
	fmt.Fprintf(buf, `{"cells":%s`, cells)
	return writeConditions(buf, row)
}

func writeConditions(buf *bytes.Buffer, row *metav1.TableRow) error {
	if len(row.Conditions) == 0 {
		return nil
	}
	data, err := json.Marshal(row.Conditions)
	if err != nil {
		return err
	}
	fmt.Fprintf(buf, `,"conditions":%s`, data)
	return nil
}

// since is how upstream's printers write an age.
func since(t metav1.Time, now time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(t.Time))
}

func createdAt(o *resources.Object) metav1.Time {
	t, err := time.Parse(time.RFC3339, gjson.GetBytes(o.Data, "metadata.creationTimestamp").Str)
	if err != nil {
		return metav1.Time{}
	}
	return metav1.Time{Time: t}
}
