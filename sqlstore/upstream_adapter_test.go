package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"

	"github.com/rowlock/rowlock/resources"
)

// upstreamStore presents a resources.Store as kube-apiserver's storage.Interface, so that kube-apiserver's own tests of
// that interface can be run on it. A key is "/pods/" and a path.
type upstreamStore struct {
	store     resources.Store
	codec     runtime.Codec
	versioner storage.APIObjectVersioner
	compacted atomic.Int64
}

var _ storage.Interface = (*upstreamStore)(nil)

const upstreamPrefix = "/pods/"

func upstreamKey(key string) resources.Key {
	namespace, name := resources.SplitPath(strings.TrimPrefix(key, upstreamPrefix))
	return pods(namespace, name)
}

func pods(namespace, name string) resources.Key {
	return resources.Key{Resource: "pods", Namespace: namespace, Name: name}
}

func (u *upstreamStore) Versioner() storage.Versioner { return u.versioner }

func (u *upstreamStore) draft(obj runtime.Object) (resources.Draft, error) {
	obj = obj.DeepCopyObject()
	if err := u.versioner.PrepareObjectForStorage(obj); err != nil {
		return resources.Draft{}, err
	}
	m, err := apimeta.Accessor(obj)
	if err != nil {
		return resources.Draft{}, err
	}
	m.SetResourceVersion(resources.PlaceholderRevision)
	data, err := runtime.Encode(u.codec, obj)
	if err != nil {
		return resources.Draft{}, err
	}
	d := resources.Draft{Data: bytes.TrimSpace(data), Labels: m.GetLabels()}
	d.RevisionStart, d.RevisionEnd, _ = resources.RevisionSpan(d.Data)
	return d, nil
}

func (u *upstreamStore) decode(o *resources.Object, out runtime.Object) error {
	if out == nil {
		return nil
	}
	if _, _, err := u.codec.Decode(o.Data, nil, out); err != nil {
		return err
	}
	return u.versioner.UpdateObject(out, uint64(o.Revision))
}

// at translates a resourceVersion. The caller sets Exact.
func (u *upstreamStore) at(resourceVersion string) (resources.At, error) {
	rv, err := u.versioner.ParseResourceVersion(resourceVersion)
	switch {
	case err != nil:
		return resources.At{}, apierrors.NewBadRequest(fmt.Sprintf("invalid resource version: %v", err))
	case resourceVersion == "":
		return resources.At{Match: resources.MostRecent}, nil
	case rv == 0:
		return resources.At{Match: resources.Any}, nil
	}
	return resources.At{Match: resources.NotOlderThan, Revision: int64(rv)}, nil
}

func upstreamError(key string, err error) error {
	var future *resources.FutureRevisionError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, resources.ErrNotFound):
		return storage.NewKeyNotFoundError(key, 0)
	case errors.Is(err, resources.ErrExists):
		return storage.NewKeyExistsError(key, 0)
	case errors.As(err, &future):
		return storage.NewTooLargeResourceVersionError(uint64(future.Requested), uint64(future.Current), 0)
	}
	return err
}

func (u *upstreamStore) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	if rv, err := u.versioner.ObjectResourceVersion(obj); err == nil && rv != 0 {
		return storage.ErrResourceVersionSetOnCreate
	}
	d, err := u.draft(obj)
	if err != nil {
		return err
	}
	stored, err := u.store.Commit(ctx, resources.Write{Op: resources.Create, Key: upstreamKey(key), Draft: d,
		TTL: time.Duration(ttl) * time.Second})
	if err != nil {
		return upstreamError(key, err)
	}
	return u.decode(stored[0], out)
}

func (u *upstreamStore) Get(ctx context.Context, key string, opts storage.GetOptions, out runtime.Object) error {
	at, err := u.at(opts.ResourceVersion)
	if err != nil {
		return err
	}
	o, err := u.store.Get(ctx, upstreamKey(key), at)
	if errors.Is(err, resources.ErrNotFound) && opts.IgnoreNotFound {
		return runtime.SetZeroValue(out)
	}
	if err != nil {
		return upstreamError(key, err)
	}
	return u.decode(o, out)
}

func (u *upstreamStore) Delete(ctx context.Context, key string, out runtime.Object, pre *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	deleted, err := resources.GuaranteedUpdate(ctx, u.store, upstreamKey(key), func(o *resources.Object) ([]resources.Write, error) {
		if o == nil {
			return nil, storage.NewKeyNotFoundError(key, 0)
		}
		if err := u.decode(o, out); err != nil {
			return nil, err
		}
		if err := pre.Check(key, out); err != nil {
			return nil, err
		}
		return []resources.Write{{Op: resources.Delete, Key: o.Key, From: o.Revision}}, validate(ctx, out)
	})
	if err != nil {
		return upstreamError(key, err)
	}
	return u.decode(deleted, out)
}

func (u *upstreamStore) GuaranteedUpdate(ctx context.Context, key string, out runtime.Object, ignoreNotFound bool,
	pre *storage.Preconditions, try storage.UpdateFunc, _ runtime.Object) error {
	kind, err := conversion.EnforcePtr(out)
	if err != nil {
		return err
	}
	stored, err := resources.GuaranteedUpdate(ctx, u.store, upstreamKey(key), func(o *resources.Object) ([]resources.Write, error) {
		input := reflect.New(kind.Type()).Interface().(runtime.Object)
		w := resources.Write{Op: resources.Create, Key: upstreamKey(key)}
		switch {
		case o != nil:
			w.Op, w.From = resources.Update, o.Revision
			if err := u.decode(o, input); err != nil {
				return nil, err
			}
		case !ignoreNotFound:
			return nil, storage.NewKeyNotFoundError(key, 0)
		}
		if err := pre.Check(key, input); err != nil {
			return nil, err
		}
		output, ttl, err := try(input, storage.ResponseMeta{ResourceVersion: uint64(w.From)})
		if err != nil {
			return nil, err
		}
		if ttl != nil {
			w.TTL = time.Duration(*ttl) * time.Second
		}
		if w.Draft, err = u.draft(output); err != nil {
			return nil, err
		}
		if o != nil && w.TTL == 0 && bytes.Equal(resources.NewObject(o.Key, w.Draft, o.Revision).Data, o.Data) {
			return nil, nil
		}
		return []resources.Write{w}, nil
	})
	if err != nil {
		return upstreamError(key, err)
	}
	return u.decode(stored, out)
}

func (u *upstreamStore) GetList(ctx context.Context, key string, opts storage.ListOptions, out runtime.Object) error {
	prefix := key
	if opts.Recursive && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	exact, from, err := storage.ValidateListOptions(prefix, u.versioner, opts)
	if err != nil {
		return err
	}
	at, err := u.at(opts.ResourceVersion)
	if err != nil {
		return err
	}
	if exact > 0 {
		at = resources.At{Match: resources.Exact, Revision: exact}
	}
	snap, err := u.store.Snapshot(ctx, "pods", at)
	var expired *resources.ExpiredError
	switch {
	case errors.As(err, &expired) && opts.Predicate.Continue != "":
		e := apierrors.NewResourceExpired("The provided continue parameter is too old to display a consistent list result.")
		token, err := storage.EncodeContinue(from, prefix, -1)
		if err != nil {
			return err
		}
		e.ErrStatus.Continue = token
		return e
	case errors.As(err, &expired):
		return apierrors.NewResourceExpired("The resourceVersion for the provided list is too old.")
	case err != nil:
		return upstreamError(key, err)
	}
	return u.page(snap, prefix, from, opts, out)
}

// page fills a list with the objects of a snapshot from a key on, up to the limit.
func (u *upstreamStore) page(snap resources.Snapshot, prefix, from string, opts storage.ListOptions, out runtime.Object) error {
	list, err := apimeta.GetItemsPtr(out)
	if err != nil {
		return err
	}
	items := reflect.ValueOf(list).Elem()
	items.Set(reflect.MakeSlice(items.Type(), 0, 0))
	path := strings.TrimPrefix(prefix, upstreamPrefix)
	first := strings.TrimPrefix(from, upstreamPrefix)
	var last string
	total := int64(0) // in this page and after it
	more := false
	snap.Ascend("", "", func(o *resources.Object) bool {
		if o.Path() < first || opts.Recursive && !strings.HasPrefix(o.Path(), path) || !opts.Recursive && o.Path() != path {
			return true
		}
		total++
		if opts.Predicate.Limit > 0 && int64(items.Len()) >= opts.Predicate.Limit {
			more = true
			return true
		}
		item := reflect.New(items.Type().Elem())
		if err = u.decode(o, item.Interface().(runtime.Object)); err != nil {
			return false
		}
		if ok, merr := opts.Predicate.Matches(item.Interface().(runtime.Object)); merr == nil && ok {
			items.Set(reflect.Append(items, item.Elem()))
		}
		last = upstreamPrefix + o.Path()
		return true
	})
	if err != nil {
		return err
	}
	token, remaining, err := storage.PrepareContinueToken(last, prefix, snap.Revision(), total, more, opts)
	if err != nil {
		return err
	}
	return u.versioner.UpdateList(out, uint64(snap.Revision()), token, remaining)
}

func (u *upstreamStore) Stats(ctx context.Context) (storage.Stats, error) {
	snap, err := u.store.Snapshot(ctx, "pods", resources.At{Match: resources.Any})
	if err != nil {
		return storage.Stats{}, err
	}
	return storage.Stats{ObjectCount: int64(snap.Count("", ""))}, nil
}

func (u *upstreamStore) GetCurrentResourceVersion(ctx context.Context) (uint64, error) {
	snap, err := u.store.Snapshot(ctx, "pods", resources.At{Match: resources.MostRecent})
	if err != nil {
		return 0, err
	}
	return uint64(snap.Revision()), nil
}

func (u *upstreamStore) ReadinessCheck() error                               { return nil }
func (u *upstreamStore) RequestWatchProgress(context.Context) error          { return nil }
func (u *upstreamStore) EnableResourceSizeEstimation(storage.KeysFunc) error { return nil }
func (u *upstreamStore) CompactRevision() int64                              { return u.compacted.Load() }
