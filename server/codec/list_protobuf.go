package codec

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// protobufList writes a list message: in every list type, metadata is field 1 and items are field 2. The length prefix of the whole requires two
// passes over the items. The second finds the messages in the cache, unless the list is too long for the cache.
func (r *Renderer) protobufList(objects []*resources.Object, m metav1.ListMeta) (*Items, error) {
	if r.Served.Untyped && r.Format.As != AsPartial {
		return nil, noMessage(r.Served.NewList())
	}
	meta, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(objects))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(meta))
	for i, o := range objects {
		item, err := r.message(o)
		if err != nil {
			return nil, err
		}
		sizes[i] = len(item)
		size += protowire.SizeTag(2) + protowire.SizeBytes(len(item))
	}
	head := envelopeHead(r.listKind(), size)
	head = protowire.AppendTag(head, 1, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	items := r.items(objects, func(w io.Writer, i int) error { return r.protobufItem(w, objects[i], sizes[i]) })
	items.Head, items.Tail = head, envelopeTail
	return items, nil
}

func (r *Renderer) protobufItem(w io.Writer, o *resources.Object, size int) error {
	item, err := r.message(o)
	if err != nil {
		return err
	}
	if len(item) != size {
		return fmt.Errorf("%s is a message of %d bytes now and was one of %d", o.Key, len(item), size)
	}
	var tag [16]byte
	t := protowire.AppendTag(tag[:0], 2, protowire.BytesType)
	if _, err := w.Write(protowire.AppendVarint(t, uint64(size))); err != nil {
		return err
	}
	_, err = w.Write(item)
	return err
}
