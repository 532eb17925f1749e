package codec

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/rowlock/rowlock/resources"
)

// protobufList writes a list message: metadata is field 1 and items are field 2 of every list type. The length of the
// whole stands at its beginning, so the items are gone through twice; the second time finds what the first has kept.
func (r *Renderer) protobufList(objects []*resources.Object, m metav1.ListMeta) (func(io.Writer) error, error) {
	meta, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	sizes := make([]int, len(objects))
	size := protowire.SizeTag(1) + protowire.SizeBytes(len(meta))
	form := r.messageForm()
	sizeForm := "size of " + form
	for i, o := range objects {
		if sizes[i], err = r.messageSize(o, form, sizeForm); err != nil {
			return nil, err
		}
		size += protowire.SizeTag(2) + protowire.SizeBytes(sizes[i])
	}
	head := envelopeHead(r.listKind(), size)
	head = protowire.AppendTag(head, 1, protowire.BytesType)
	head = protowire.AppendBytes(head, meta)
	return func(w io.Writer) error {
		if _, err := w.Write(head); err != nil {
			return err
		}
		for i, o := range objects {
			if err := r.protobufItem(w, o, sizes[i]); err != nil {
				return err
			}
		}
		_, err := w.Write(envelopeTail)
		return err
	}, nil
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

// message returns an item of a list, and messageForm the form under which it is kept.
func (r *Renderer) message(o *resources.Object) ([]byte, error) {
	if r.Format.As == AsPartial {
		return r.partialMessage(o)
	}
	return r.protobuf(o)
}

func (r *Renderer) messageForm() string {
	if r.Format.As == AsPartial {
		return partialForm
	}
	return r.protobufForm
}

// messageSize returns the size of an item. Where there is no room to keep the item, its size is kept.
func (r *Renderer) messageSize(o *resources.Object, form, sizeForm string) (int, error) {
	if item := o.Kept(form); item != nil {
		return len(item), nil
	}
	if size := o.Kept(sizeForm); size != nil {
		n, _ := protowire.ConsumeVarint(size)
		return int(n), nil
	}
	item, err := r.message(o)
	if err != nil || o.Kept(form) != nil {
		return len(item), err
	}
	_, err = o.Form(sizeForm, func() ([]byte, error) { return protowire.AppendVarint(nil, uint64(len(item))), nil })
	return len(item), err
}
