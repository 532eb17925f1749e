package codec

import (
	"bytes"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
)

// yamlList writes a list in YAML object by object: a whole list would be in memory three times, as JSON, as a tree, and as YAML. Keys are in
// alphabetical order, so that the items come second.
func (r *Renderer) yamlList(objects []*resources.Object, m metav1.ListMeta) (*List, error) {
	kind := r.listKind()
	head, err := yaml.Marshal(map[string]string{"apiVersion": kind.GroupVersion().String()})
	if err != nil {
		return nil, err
	}
	tail, err := yaml.Marshal(struct {
		Kind string `json:"kind"`
		Meta any    `json:"metadata"`
	}{kind.Kind, r.listMeta(m)})
	if err != nil {
		return nil, err
	}
	if len(objects) == 0 {
		return &List{Write: func(w io.Writer) error { return writeAll(w, string(head), "items: []\n", string(tail)) }}, nil
	}
	if err := r.shallowEnough(objects, r.yamlSource); err != nil { // must fail before anything is written
		return nil, err
	}
	items := r.items(objects, func(w io.Writer, i int) error { return r.yamlItem(w, objects[i]) })
	items.Head, items.Tail = append(head, yamlItems...), tail
	return &List{Write: items.Write, Items: items}, nil
}

const yamlRows = "rows:\n"

// yamlTable writes a Table in YAML row by row. head is the JSON before its rows, which are the last key in alphabetical order.
func (r *Renderer) yamlTable(head []byte, objects []*resources.Object) (func(io.Writer) error, error) {
	before, err := ToYAML(append(head, "[]}"...))
	if err != nil {
		return nil, err
	}
	include, now := r.tableOptions().IncludeObject, time.Now()
	source := func(table *bytes.Buffer, o *resources.Object) error {
		table.WriteString(`{"rows":[`)
		if err := r.row(table, o, include, now); err != nil {
			return err
		}
		table.WriteString(`]}`)
		return nil
	}
	if err := r.shallowEnough(objects, source); err != nil {
		return nil, err
	}
	return func(w io.Writer) error {
		err := writeAll(w, strings.TrimSuffix(string(before), "rows: []\n"), yamlRows)
		for i := 0; i < len(objects) && err == nil; i++ {
			var table bytes.Buffer
			if err = source(&table, objects[i]); err == nil {
				err = writeShort(w, table.Bytes(), yamlRows)
			}
		}
		return err
	}, nil
}

// writeShort writes the YAML of a JSON document that begins with prefix, without the prefix.
func writeShort(w io.Writer, document []byte, prefix string) error {
	data, err := ToYAML(document)
	if err != nil {
		return err
	}
	_, err = w.Write(bytes.TrimPrefix(data, []byte(prefix)))
	return err
}

// shallowEnough rejects objects that ToYAML would reject; source writes what is converted of one.
func (r *Renderer) shallowEnough(objects []*resources.Object, source func(*bytes.Buffer, *resources.Object) error) error {
	var list bytes.Buffer
	for _, o := range objects {
		if len(o.Data) < mayBeDeep && r.Served.Converted == nil {
			continue
		}
		list.Reset()
		if err := source(&list, o); err != nil {
			return err
		}
		if err := checkYAML(list.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// mayBeDeep is the least length of JSON that can exceed indentedMost: the worst case is n bytes with n/2 levels, which become n*n/2.
const mayBeDeep = 10 << 10

const yamlItems = "items:\n"

// yamlItem writes an object as the only one of a list, without the beginning of the list: line breaks depend on the depth.
func (r *Renderer) yamlItem(w io.Writer, o *resources.Object) error {
	var list bytes.Buffer
	if err := r.yamlSource(&list, o); err != nil {
		return err
	}
	return writeShort(w, list.Bytes(), yamlItems)
}

// yamlSource writes the list of one item to convert to YAML.
func (r *Renderer) yamlSource(list *bytes.Buffer, o *resources.Object) error {
	list.WriteString(`{"items":[`)
	if err := r.jsonItem(list, o); err != nil {
		return err
	}
	list.WriteString(`]}`)
	return nil
}
