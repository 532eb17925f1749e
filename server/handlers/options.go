package handlers

import (
	"context"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metainternalversionvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/server/codec"
)

// begin reads what create, update and patch have in common, in the order in which kube-apiserver reports errors: the format of the response, the
// body, and the options of the query, which validate then checks.
func (q *request) begin(opts runtime.Object, kind string, validate func() field.ErrorList) (codec.Format, []byte, error) {
	f, err := q.format()
	if err != nil {
		return f, nil, err
	}
	if q.r.Method == http.MethodPost { // with other methods an invalid body format is reported after the options
		if _, err := q.offer.BodyMedia(q.r); err != nil {
			return f, nil, err
		}
	}
	body, err := q.readBody()
	if err != nil {
		return f, nil, err
	}
	if err := q.decodeOptions(opts); err != nil {
		return f, nil, err
	}
	if errs := validate(); len(errs) > 0 {
		return f, nil, invalidOptions(kind, errs)
	}
	opts.GetObjectKind().SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind(kind))
	return f, body, nil
}

// listOptions decodes and validates the options of list, watch and deletecollection.
func (q *request) listOptions() (*metainternalversion.ListOptions, error) {
	opts := &metainternalversion.ListOptions{}
	if err := q.decodeOptions(opts); err != nil {
		return nil, err
	}
	begins := utilfeature.DefaultFeatureGate.Enabled(features.WatchList)
	metainternalversion.SetListOptionsDefaults(opts, begins)
	if errs := metainternalversionvalidation.ValidateListOptions(opts, begins); len(errs) > 0 {
		return nil, invalidOptions("ListOptions", errs)
	}
	if opts.FieldSelector != nil {
		selector, err := opts.FieldSelector.Transform(func(label, value string) (string, string, error) {
			return q.served.Scheme.ConvertFieldLabel(q.served.GroupVersionKind, label, value)
		})
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		opts.FieldSelector = selector
	}
	return opts, q.selectName(opts)
}

// selectName turns a name in the path (the legacy /watch/ form) into a field selector.
func (q *request) selectName(opts *metainternalversion.ListOptions) error {
	if q.info.Name == "" {
		return nil
	}
	if opts.FieldSelector == nil || opts.FieldSelector.Empty() {
		opts.FieldSelector = fields.OneTermEqualSelector("metadata.name", q.info.Name)
		return nil
	}
	if name, ok := opts.FieldSelector.RequiresExactMatch("metadata.name"); !ok || name != q.info.Name {
		return apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	return nil
}

func invalidOptions(kind string, errs field.ErrorList) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// selection says which objects of a type a list or a watch selects.
type selection struct {
	namespace, name string // narrow the range; empty: all
	labels          labels.Selector
	fields          fields.Selector
	shard           *shard
	// needs are conditions on the stored labels and fields that a matching object must meet.
	needs resources.Needs
	// fieldsOf reads the selectable fields of an object; nil: they are stored with it.
	fieldsOf func(*resources.Object) (fields.Set, error)
	// convert converts objects whose fields are to be read. Nil: no conversion webhook is needed.
	convert func(context.Context, []*resources.Object) error
	// failed is the first error of fieldsOf. Callers of matches must check it before they respond.
	failed error
}

func (q *request) selection(opts *metainternalversion.ListOptions) selection {
	s := selection{namespace: q.namespace(), labels: opts.LabelSelector, fields: opts.FieldSelector}
	if s.labels != nil && s.labels.Empty() {
		s.labels = nil
	}
	if s.fields != nil && s.fields.Empty() {
		s.fields = nil
	}
	if s.fields == nil {
		s.needs = resources.NeedsOf(s.labels, nil)
		return s
	}
	if q.served.FieldsOf == nil {
		s.needs = resources.NeedsOf(s.labels, s.fields)
	} else {
		s.needs = resources.NeedsOf(s.labels, nil) // its selectable fields are not stored
	}
	if of := q.served.FieldsOf; of != nil {
		r := codec.NewRenderer(q.served, codec.Format{})
		r.Bulk(2) // rendered objects are cached while there is room
		if q.served.Converted != nil {
			s.convert = r.Convert
		}
		s.fieldsOf = func(o *resources.Object) (fields.Set, error) {
			data, err := r.Versioned(o)
			if err != nil {
				return nil, err
			}
			return of(data), nil
		}
	}
	if ns, ok := s.fields.RequiresExactMatch("metadata.namespace"); ok && s.namespace == "" && q.served.Namespaced {
		s.namespace = ns
	}
	if name, ok := s.fields.RequiresExactMatch("metadata.name"); ok && (s.namespace != "" || !q.served.Namespaced) &&
		len(content.IsPathSegmentName(name)) == 0 {
		s.name = name
	}
	return s
}

// everything tells whether the selection excludes nothing in its range.
func (s *selection) everything() bool { return s.labels == nil && s.fields == nil && s.shard == nil }

func (s *selection) matches(o *resources.Object) bool {
	if !o.MayMatch(s.needs) {
		return false
	}
	if s.labels != nil && !s.labels.Matches(o.Labels) || !s.shard.has(o) {
		return false
	}
	if s.fields == nil {
		return true
	}
	own := o.Fields
	if s.fieldsOf != nil {
		var err error
		if own, err = s.fieldsOf(o); err != nil {
			if s.failed == nil {
				s.failed = err
			}
			return false
		}
	}
	return s.fields.Matches(objectFields{o, own})
}

// objectFields are the selectable fields of an object.
type objectFields struct {
	o   *resources.Object
	own fields.Set // besides name and namespace
}

func (f objectFields) Has(name string) bool {
	switch name {
	case "metadata.name":
		return true
	case "metadata.namespace":
		return f.o.Namespace != ""
	}
	return f.own.Has(name)
}

func (f objectFields) Get(name string) string {
	switch name {
	case "metadata.name":
		return f.o.Name
	case "metadata.namespace":
		return f.o.Namespace
	}
	return f.own.Get(name)
}
