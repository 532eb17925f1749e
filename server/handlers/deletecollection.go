package handlers

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// deleteCollection deletes what a list with the same options would return ("Collections").
func (h *Handlers) deleteCollection(q *request) error {
	f, err := q.format()
	if err != nil {
		return err
	}
	list, err := q.listOptions()
	if err != nil {
		return err
	}
	opts, err := q.deleteOptions()
	if err != nil {
		return err
	}
	if ptr.Deref(opts.IgnoreStoreReadErrorWithClusterBreakingPotential, false) {
		return invalidOptions("DeleteOptions", field.ErrorList{field.Invalid(field.NewPath("ignoreStoreReadErrorWithClusterBreakingPotential"),
			true, "is not allowed with DELETECOLLECTION, try again after removing the option")})
	}
	// kube-apiserver reads the list in pages, so that a version means this one and none later.
	if rv := list.ResourceVersion; rv != "" && rv != "0" && list.ResourceVersionMatch == "" && q.selection(list).name == "" {
		list.ResourceVersionMatch = metav1.ResourceVersionMatchExact
	}
	var objects []*resources.Object
	var m metav1.ListMeta
	err = h.Pipeline.DeleteCollection(q.ctx, &resources.CollectionRequest{Type: q.served.Type, Options: opts,
		Select: func() (_ []*resources.Object, err error) {
			objects, m, err = h.collect(q, list)
			return objects, err
		}})
	if err != nil {
		return err
	}
	write, err := codec.NewRenderer(q.served, f).List(objects, m)
	if err != nil {
		return err
	}
	return q.stream(f, write)
}
