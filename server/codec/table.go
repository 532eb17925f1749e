package codec

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/fastpath"
)

// table returns the JSON of a Table of the objects ("Receiving resources as Tables" of the API concepts page).
func (r *Renderer) table(objects []*resources.Object, m metav1.ListMeta, headers bool) ([]byte, error) {
	head, err := r.tableHead(m, headers)
	if err != nil {
		return nil, err
	}
	buf := bytes.NewBuffer(head)
	err = r.rows(buf, objects)
	return buf.Bytes(), err
}

// tableList writes a Table as it is rendered.
func (r *Renderer) tableList(objects []*resources.Object, m metav1.ListMeta) (func(io.Writer) error, error) {
	head, err := r.tableHead(m, true)
	if err != nil {
		return nil, err
	}
	if r.Format.Media == YAML && len(objects) > 0 && fastpath.Streaming.On() {
		return r.yamlTable(head, objects)
	}
	return r.streamed(func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		if err := r.rows(w, objects); err != nil {
			return err
		}
		_, err := w.Write(newline)
		return err
	})
}

// inTableOrder returns the objects of a list in the order of the rows. It does not modify the list, which is shared.
func (r *Renderer) inTableOrder(objects []*resources.Object) []*resources.Object {
	if r.Served.TableOrder == nil {
		return objects
	}
	return slices.SortedStableFunc(slices.Values(objects), r.Served.TableOrder)
}

var newline = []byte("\n")

func (r *Renderer) tableHead(m metav1.ListMeta, headers bool) ([]byte, error) {
	if r.Format.Refusal != nil {
		return nil, r.Format.Refusal
	}
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	columns := []byte("null")
	if headers && !r.tableOptions().NoHeaders {
		if columns, err = r.columns(); err != nil {
			return nil, err
		}
	}
	return fmt.Appendf(nil, `{"kind":"Table","apiVersion":"meta.k8s.io/%s","metadata":%s,"columnDefinitions":%s,"rows":`,
		r.Format.AsVersion, meta, columns), nil
}

func (r *Renderer) tableOptions() *metav1.TableOptions {
	if r.Format.Table == nil {
		return &metav1.TableOptions{}
	}
	return r.Format.Table
}

// rows writes the rows and the end of a Table.
func (r *Renderer) rows(w io.Writer, objects []*resources.Object) error {
	if len(objects) == 0 {
		return r.noRows(w)
	}
	include, now := r.tableOptions().IncludeObject, time.Now()
	var buf bytes.Buffer
	for i, o := range objects {
		buf.Reset()
		if i == 0 {
			buf.WriteByte('[')
		} else {
			buf.WriteByte(',')
		}
		if err := r.row(&buf, o, include, now); err != nil {
			return err
		}
		if _, err := w.Write(buf.Bytes()); err != nil {
			return err
		}
	}
	_, err := w.Write(tableEnd)
	return err
}

var tableEnd = []byte("]}")

// noRows ends an empty Table. Its rows are null for a type without columns of its own.
func (r *Renderer) noRows(w io.Writer) error {
	t, err := r.Served.Table.ConvertToTable(context.Background(), r.Served.NewList(), nil)
	if err != nil {
		return err
	}
	rows, err := json.Marshal(t.Rows)
	if err != nil {
		return err
	}
	_, err = w.Write(append(rows, '}'))
	return err
}

func (r *Renderer) columns() ([]byte, error) {
	t, err := r.Served.Table.ConvertToTable(context.Background(), r.Served.NewList(), nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(t.ColumnDefinitions)
}

// row writes one row: the cells, and as much of the object as requested.
func (r *Renderer) row(buf *bytes.Buffer, o *resources.Object, include metav1.IncludeObjectPolicy, now time.Time) error {
	if err := r.cells(buf, o, now); err != nil {
		return err
	}
	buf.WriteString(`,"object":`)
	if include == metav1.IncludeNone && endsInitialEvents(o) {
		include = metav1.IncludeMetadata // otherwise the row would not have the annotation
	}
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
		m, err := r.metadata(o)
		if err != nil {
			return err
		}
		buf.WriteString(r.partialHead())
		buf.WriteString(m)
		buf.WriteByte('}')
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("unrecognized includeObject value: %q", include))
	}
	buf.WriteByte('}')
	return nil
}

// endsInitialEvents tells whether an object is the bookmark after the initial events of a watch.
func endsInitialEvents(o *resources.Object) bool {
	const mark = metav1.InitialEventsAnnotationKey
	m := resources.MetadataOf(o.Data)
	return strings.Contains(m, mark) && gjson.Get(m, "annotations."+gjson.Escape(mark)).Str == "true"
}

// cells writes `{"cells":[…]` and the row's conditions. They are cached with the object, without the age, unless another cell depends on the time.
func (r *Renderer) cells(buf *bytes.Buffer, o *resources.Object, now time.Time) error {
	if !r.keepsCells {
		return r.printCells(buf, o)
	}
	kept, err := r.form(o, r.Served.FormID(resources.CellsForm, false), func() ([]byte, error) {
		hub, err := r.Served.DecodeHub(o)
		if err != nil {
			return nil, err
		}
		return r.Served.Cells(hub)
	})
	if err != nil {
		return err
	}
	if len(kept) == 0 {
		fastpath.Cells.Fallback()
		return r.printCells(buf, o)
	}
	before, after, marked := bytes.Cut(kept, []byte(resources.AgeMark))
	buf.Write(before)
	if marked {
		json.HTMLEscape(buf, []byte(resources.Age(createdAt(o), now))) // <unknown>, <invalid>
		buf.Write(after)
	}
	return nil
}

func (r *Renderer) printCells(buf *bytes.Buffer, o *resources.Object) error {
	hub, err := r.Served.DecodeHub(o)
	if err != nil {
		return err
	}
	row, err := r.Served.PrintRow(hub)
	if err != nil {
		return err
	}
	return resources.WriteRow(buf, row)
}

// createdAt is zero for an object that was never stored.
func createdAt(o *resources.Object) time.Time {
	t, err := time.Parse(time.RFC3339, gjson.GetBytes(o.Data, "metadata.creationTimestamp").Str)
	if err != nil {
		return time.Time{}
	}
	return t
}
