package resources

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"

	"github.com/rowlock/rowlock/resources/fastpath"
)

// A client that applies the same body repeatedly changes nothing: the result of a request depends on the object, on the body, and on the
// rules of the type. For a type whose objects are large, updates that changed nothing are remembered by the body and the object's revision:
// they change nothing as long as the object is at this revision. An update that caused a warning is not remembered, nor is one whose objects
// mutating admission looked at; admission is called each time.

// Digest is the hash of a request's body and parameters.
type Digest = [sha256.Size]byte

// Repeats remembers updates of a type that changed nothing, by digests of the object's revision and the request. Its methods are safe for
// concurrent use.
type Repeats interface {
	// Repeatable reports whether an update from old to obj (hub form) that changes nothing changes nothing again as long as the object stays
	// the same: the rules read only these two.
	Repeatable(obj, old runtime.Object) bool
	Has(update Digest) bool
	Add(update Digest)
}

// repeat is an update that may be a repetition.
type repeat struct {
	key    Digest
	warned atomic.Bool
	// looked is set when a plugin of mutating admission has read the object.
	looked bool
}

// repeat returns the record of an update of the live object; nil: such an update is not remembered.
func (u update) repeat(ctx context.Context, live *Object) *repeat {
	t := u.Type
	// If the rules depend on another object (Requires), a request has to learn when that has changed.
	if t.Repeats == nil || t.Requires != nil || !u.whole || u.Metadata || u.disowned || u.Sent == nil || !fastpath.Repeats.On() {
		return nil
	}
	info, ok := genericapirequest.RequestInfoFrom(ctx)
	if !ok {
		return nil
	}
	sent := u.Sent()
	text, err := json.Marshal([]string{info.APIVersion, live.Resource, live.Namespace, live.Name, string(u.UID)})
	if err != nil {
		return nil
	}
	var key bytes.Buffer
	_, _ = key.Write(text)
	_, _ = key.Write(sent[:])
	_, _ = key.Write(binary.BigEndian.AppendUint64(nil, uint64(live.Revision)))
	if u.DryRun {
		_ = key.WriteByte(1)
	}
	return &repeat{key: sha256.Sum256(key.Bytes())}
}

// listen returns a context that passes warnings on and notes them.
func (r *repeat) listen(ctx context.Context) context.Context {
	if r == nil {
		return ctx
	}
	return warning.WithWarningRecorder(ctx, warningListener{ctx, r})
}

type warningListener struct {
	to context.Context
	r  *repeat
}

// AddWarning implements warning.Recorder.
func (l warningListener) AddWarning(agent, text string) {
	l.r.warned.Store(true)
	warning.AddWarning(l.to, agent, text)
}

// known reports whether the update changed nothing before.
func (r *repeat) known(t *Type) bool { return r != nil && t.Repeats.Has(r.key) }

// observed makes mutating admission note whether a plugin has read the objects.
func (r *repeat) observed(a admitted) admitted {
	if r != nil {
		obj, old := a.obj, a.old
		a.load = func() (runtime.Object, runtime.Object) {
			r.looked = true
			return obj, old
		}
	}
	return a
}

// unchanged remembers that the update has changed nothing.
func (r *repeat) unchanged(t *Type, obj, existing runtime.Object) {
	if r == nil {
		return
	}
	fastpath.Repeats.Fallback()
	if !r.looked && !r.warned.Load() && t.Repeats.Repeatable(obj, existing) {
		t.Repeats.Add(r.key)
	}
}

// repeated runs admission for an update that changed nothing before. If a plugin of mutating admission reads the objects, it may have
// changed them, and they are returned; otherwise the results are nil.
func (u update) repeated(ctx context.Context, live *Object, r *repeat) (existing, obj runtime.Object, err error) {
	var failed error
	var before managers
	a := u.admitted(nil, nil)
	a.load = func() (runtime.Object, runtime.Object) {
		if r.looked = true; existing == nil && failed == nil {
			if existing, failed = u.existing(ctx, live); failed == nil {
				obj, failed = u.change(ctx, existing, live)
				before = managersOf(obj)
			}
		}
		return obj, existing
	}
	err = u.p.admit(ctx, a)
	if now := managersOf(obj); err == nil && obj != nil && !now.is(before) {
		now.keepValid(ctx, before) // as admit does for an object that it is given
	}
	if failed != nil || err != nil || existing != nil {
		return existing, obj, cmp.Or(failed, err)
	}
	// Validating admission sees the live object as the new one, too.
	var now, old runtime.Object
	a.load = func() (runtime.Object, runtime.Object) {
		if now == nil && failed == nil {
			if old, failed = u.existing(ctx, live); failed == nil {
				now = old.DeepCopyObject()
			}
		}
		return now, old
	}
	err = u.p.validate(ctx, a)
	return nil, nil, cmp.Or(failed, err)
}

// lazyAttributes are attributes whose objects are made on demand.
type lazyAttributes struct {
	admission.Attributes
	load func() (obj, old runtime.Object)
}

// GetObject implements admission.Attributes.
func (a lazyAttributes) GetObject() runtime.Object {
	obj, _ := a.load()
	return obj
}

// GetOldObject implements admission.Attributes.
func (a lazyAttributes) GetOldObject() runtime.Object {
	_, old := a.load()
	return old
}
