package codec

import (
	"bytes"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
)

// yamlList writes a list in YAML an object at a time: the whole would be in memory three times, as JSON, as a tree, and as
// YAML. Keys are in the order of the alphabet, in which the items come second.
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
	for _, o := range objects {
		// What is too deep for YAML is looked for before anything is written.
		if len(o.Data) > mayBeDeep && indentedLen(o.Data, 0) > indentedMost/2 {
			if err := r.yamlItem(io.Discard, o); err != nil {
				return nil, err
			}
		}
	}
	items := r.items(objects, func(w io.Writer, i int) error { return r.yamlItem(w, objects[i]) })
	items.Head, items.Tail = append(head, yamlItems...), tail
	return &List{Write: items.Write, Items: items}, nil
}

// mayBeDeep is how long JSON is at least that becomes longer than half of indentedMost: n bytes have n/2 levels at most, of which each costs
// twice its number at its begin and at its end.
const mayBeDeep = 4 << 10

const yamlItems = "items:\n"

// yamlItem writes an object as the only one of a list, without what a list begins with: how long lines are broken depends on
// how deep they stand.
func (r *Renderer) yamlItem(w io.Writer, o *resources.Object) error {
	var list bytes.Buffer
	list.WriteString(`{"items":[`)
	if err := r.jsonItem(&list, o); err != nil {
		return err
	}
	list.WriteString(`]}`)
	data, err := toYAML(list.Bytes())
	if err != nil {
		return err
	}
	_, err = w.Write(bytes.TrimPrefix(data, []byte(yamlItems)))
	return err
}
