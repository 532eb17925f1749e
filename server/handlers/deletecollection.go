package handlers

import (
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// collectionPage is the number of objects that kube-apiserver reads at once when it deletes a collection.
const collectionPage = 10000

// deleteCollection deletes what a list with the same options would return ("Collections").
func (h *Handlers) deleteCollection(q *request) error {
	var (
		f       codec.Format
		objects []*resources.Object
		m       metav1.ListMeta
	)
	r := &resources.CollectionRequest{Type: h.storedType(q)}
	r.Decode = func() error {
		var err error
		if f, err = q.format(); err != nil {
			return err
		}
		list, err := q.listOptions()
		if err != nil {
			return err
		}
		if r.Options, err = q.collectionOptions(); err != nil {
			return err
		}
		// kube-apiserver reads the list in pages, so that a resourceVersion is matched exactly, except for a list of one.
		if rv := list.ResourceVersion; rv != "" && rv != "0" && list.ResourceVersionMatch == "" {
			if q.selection(list).name == "" {
				list.ResourceVersionMatch = metav1.ResourceVersionMatchExact
			} else {
				list.Limit = 1
			}
		}
		r.Select = func() (_ []*resources.Object, err error) {
			if objects, m, err = h.collect(q, list); err == nil && len(objects) > 0 {
				_, err = q.served.RequestKey(q.ctx, objects[0].Name) // a path with an empty namespace lists all namespaces, and deletes nothing
			}
			h.markFirstPage(q, list, objects, &m)
			return objects, err
		}
		return nil
	}
	if err := h.Pipeline.DeleteCollection(q.ctx, r); err != nil {
		return err
	}
	q.written = true
	if f.As != codec.AsPartial {
		if err := q.asStored(objects...); err != nil {
			return err
		}
	}
	return q.list(f, objects, m)
}

// markFirstPage makes the metadata of a list of deleted objects that of its first page, as it is with kube-apiserver, although the list has all of them.
func (h *Handlers) markFirstPage(q *request, list *metainternalversion.ListOptions, objects []*resources.Object, m *metav1.ListMeta) {
	whole := list.ResourceVersion == "0" && !q.served.Uncached // the limit is ignored, see collect
	if list.Limit != 0 || whole || len(objects) <= collectionPage {
		return
	}
	s := q.selection(list)
	revision, _ := resources.RevisionOfParameter(m.ResourceVersion) // of a list that was made here
	m.Continue = encodeContinue(objects[collectionPage-1].Path(), s.namespace, revision, h.age.begins())
	if s.everything() && m.ShardInfo == nil {
		m.RemainingItemCount = ptr.To(int64(len(objects) - collectionPage))
	}
}

// collectionOptions decodes the options for deleting each object.
func (q *request) collectionOptions() (*metav1.DeleteOptions, error) {
	opts, err := q.deleteOptions()
	if err == nil && ptr.Deref(opts.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		err = invalidOptions("DeleteOptions", field.ErrorList{field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"),
			true, "is not allowed with DELETECOLLECTION, try again after removing the option")})
	}
	return opts, err
}
