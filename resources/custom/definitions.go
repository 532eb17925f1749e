package custom

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/behind"
)

// Resource is the resource of definitions in the store.
const Resource = "customresourcedefinitions.apiextensions.k8s.io"

// The priorities of the groups and versions of custom resources in discovery, as in kube-apiserver.
const (
	groupPriority   = 1000
	versionPriority = 100
)

// Config has the dependencies of Definitions.
type Config struct {
	Registry *resources.Registry
	// Store is read and watched.
	Store resources.View
	// Scheme has the kinds with Go types.
	Scheme resources.Scheme
	Logger *slog.Logger
	// ServiceRouting says where a conversion webhook behind a Service is called.
	ServiceRouting behind.Routing
}

// ReachesItself makes calls of the server's own conversion webhooks stay within the process. It comes before the first conversion.
func (d *Definitions) ReachesItself(by http.RoundTripper) { d.lines.loopback = by }

// Definitions serves the types of the stored definitions: it adds them to a registry, changes and removes them.
//
// The next request after a Commit of this server is served by its result (Refresh); for the writes of other servers, Latest takes up
// all that were acknowledged before the call. It is safe for concurrent use.
type Definitions struct {
	Config
	// builtin are the versions that are served without definitions, builtinResources the resources in them, and builtinNames the names
	// in their groups. Definitions do not change them.
	builtin          map[schema.GroupVersion]bool
	builtinResources sets.Set[string]
	builtinNames     map[string]names

	compiled  compiled
	validated validated
	repeats   repeats
	schemas   leanSchemas
	// quiet remembers definitions that cause no warning.
	quiet seen
	// parts remembers parts of schemas that are valid and cause no warning.
	parts seen
	// patterns remembers regular expressions that are valid.
	patterns seen
	// verdicts has the costs of the rules in CEL that are valid.
	verdicts recent[verdict]

	// lines connect to conversion webhooks.
	lines lines

	// woken counts the notifications of the store, and applied is the count up to which the changes are served.
	woken, applied atomic.Int64
	// through is the revision up to which all changes are served.
	through atomic.Int64
	changed chan struct{}

	// applying is held by the goroutine that takes up changes: the store may block it, and with it the requests that need the
	// changes, but no other request.
	applying chan struct{}
	// watch returns all that reads have shown. alarm notifies of further changes: of this server's commits before they are visible,
	// of other servers' some time later. Nil: not open yet.
	watch, alarm resources.Watch
	closed       bool

	// mu guards byName, and is held only for a look-up or a change of it.
	mu     sync.Mutex
	byName map[string]*definition
}

// New returns Definitions. groups are all groups that are served without definitions, before they are registered: the type of the
// definitions is among them, and gets its rules.
func New(c Config, groups []resources.GroupSpec) *Definitions {
	d := &Definitions{Config: c, builtin: map[schema.GroupVersion]bool{}, builtinResources: sets.New[string](), builtinNames: map[string]names{},
		changed: make(chan struct{}, 1), applying: make(chan struct{}, 1), byName: map[string]*definition{}, compiled: compiled{room: compiledRoom}}
	d.lines.config, d.lines.behind = &d.Config, behind.New(c.Store, c.Registry)
	d.woken.Store(1)
	for _, g := range groups {
		n := names{sets.New[string](), sets.New[string]()}
		for _, v := range g.Versions {
			d.builtin[schema.GroupVersion{Group: g.Name, Version: v.Version}] = true
			for _, t := range v.Types {
				d.builtinResources.Insert(t.ResourceName())
				n.add(t.Resource, t.SingularName, t.ShortNames, t.Kind, t.KindOfLists())
				if t.ResourceName() == Resource {
					d.rule(t)
				}
			}
		}
		d.builtinNames[g.Name] = n
	}
	d.reserveKinds()
	return d
}

// reserveKinds reserves the names of kinds with Go types whether they are served or not: their stored objects keep the names.
func (d *Definitions) reserveKinds() {
	known, ok := d.Scheme.(interface {
		AllKnownTypes() map[schema.GroupVersionKind]reflect.Type
	})
	if !ok {
		return
	}
	for kind := range known.AllKnownTypes() {
		n, ok := d.builtinNames[kind.Group]
		if !ok {
			n = names{sets.New[string](), sets.New[string]()}
			d.builtinNames[kind.Group] = n
		}
		plural, singular := meta.UnsafeGuessKindToResource(kind)
		n.add(plural.Resource, singular.Resource, nil, kind.Kind, kind.Kind+"List")
	}
}

// Run takes up changes of definitions until ctx ends, also without requests.
func (d *Definitions) Run(ctx context.Context) {
	defer d.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.changed:
		}
		if err := d.Refresh(ctx); err != nil && ctx.Err() == nil {
			d.Logger.Warn("changes of custom resource definitions cannot be followed, trying again", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
				d.wake()
			}
		}
	}
}

func (d *Definitions) close() {
	d.applying <- struct{}{}
	defer func() { <-d.applying }()
	d.closeWatches()
	d.closed = true
}

func (d *Definitions) closeWatches() {
	for _, w := range []*resources.Watch{&d.watch, &d.alarm} {
		if *w != nil {
			(*w).Close()
			*w = nil
		}
	}
}

// wake is called by the store, with its locks held.
func (d *Definitions) wake() {
	d.woken.Add(1)
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// Refresh takes up this server's writes. It costs nothing when there are none.
//
// Errors: those of resources.Watcher and resources.Reader; the earlier state is then still served.
func (d *Definitions) Refresh(ctx context.Context) error {
	if d.applied.Load() == d.woken.Load() {
		return nil
	}
	return d.Seen(ctx)
}

// Seen takes up all writes, of this server and others, that any read of this server has shown before the call. Errors: as Refresh.
func (d *Definitions) Seen(ctx context.Context) error {
	select {
	case d.applying <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.applying }()
	return d.apply(ctx)
}

// HasSeen tells whether all changes up to a revision that this server has shown are served, so that Seen has nothing to do for it. It does not wait, and
// writes of other types do not matter to it.
func (d *Definitions) HasSeen(revision int64) bool {
	through := d.through.Load() // before Changed, which is raised before the next change is shown
	return through >= revision || through >= d.Store.Changed(Resource)
}

// Latest takes up all writes of any server that were stored before the call. Errors: as Refresh.
func (d *Definitions) Latest(ctx context.Context) error {
	if _, err := d.Store.Snapshot(ctx, Resource, resources.At{Match: resources.MostRecent}); err != nil {
		return err
	}
	return d.Seen(ctx)
}

// page is the number of events per call, and pause the time that Run waits after an error.
const (
	page  = 256
	pause = time.Second
)

// apply takes up all events. The caller holds applying.
func (d *Definitions) apply(ctx context.Context) error {
	if d.closed {
		return resources.ErrClosed
	}
	woken := d.woken.Load() // a later notification raises the count again, and another call looks for its change
	for {
		if d.watch == nil {
			if err := d.load(ctx); err != nil {
				return err
			}
		}
		done, err := d.take(ctx)
		var expired *resources.ExpiredError
		var unreadable *resources.TransformError
		switch {
		case errors.As(err, &expired), errors.As(err, &unreadable):
			d.closeWatches()
		case err != nil:
			return err
		case done:
			d.applied.Store(woken)
			return nil
		}
	}
}

// take takes up a page of events; done: there are no more.
func (d *Definitions) take(ctx context.Context) (done bool, err error) {
	for rest := d.applied.Load() != d.woken.Load(); rest; { // so that the next change wakes again
		events, _, err := d.alarm.Next(ctx, page)
		if err != nil {
			return false, err
		}
		rest = len(events) == page
	}
	events, position, err := d.watch.Next(ctx, page)
	if err != nil {
		return false, err
	}
	d.observe(events)
	if position > d.through.Load() {
		d.through.Store(position)
	}
	return len(events) < page, nil
}

// edit changes byName and the registry together.
func (d *Definitions) edit(change func(*resources.Edit)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Registry.Edit(change)
}

// observe serves the result of changes, in one step.
func (d *Definitions) observe(events []*resources.Event) {
	if len(events) == 0 {
		return
	}
	d.edit(func(e *resources.Edit) {
		for _, event := range events {
			name := event.Object.Name
			if event.Op == resources.Delete {
				d.put(e, name, nil)
				continue
			}
			next := d.read(event.Object)
			next.follows(d.byName[name], false)
			d.put(e, name, next)
		}
	})
}

// put replaces the served types of a definition by those of next; nil: by nothing.
func (d *Definitions) put(e *resources.Edit, name string, next *definition) {
	if before := d.byName[name]; before != nil {
		for _, version := range before.served {
			if d.defines(before, version) && (next == nil || !next.serves(version, before)) {
				e.RemoveType(before.gv(version).WithResource(before.types.of(version).Resource))
			}
		}
	}
	if next == nil {
		delete(d.byName, name)
		return
	}
	d.byName[name] = next
	for _, version := range next.served {
		if d.defines(next, version) {
			e.SetType(next.gv(version), groupPriority, versionPriority, next.types.of(version))
		}
	}
}

// defines reports whether a version of a definition is served by it. A built-in version has no custom types, as in kube-apiserver, and a
// built-in resource has no custom versions, because they would have the same objects in the store.
func (d *Definitions) defines(def *definition, version string) bool {
	return !d.builtin[def.gv(version)] && !d.BuiltIn(def.types.of(version).ResourceName())
}

// BuiltIn reports whether a resource is served without a definition. New definitions cannot have its name, but imported ones may.
func (d *Definitions) BuiltIn(resource string) bool { return d.builtinResources.Has(resource) }

// serves reports whether a definition serves the same resource in a version as another one did.
func (d *definition) serves(version string, before *definition) bool {
	for _, v := range d.served {
		if v == version {
			return d.types.of(v).GroupResource == before.types.of(v).GroupResource
		}
	}
	return false
}

// Unfinished returns the names of the definitions that are being deleted, and of the other definitions whose names are not all
// accepted or that are not established; each sorted.
func (d *Definitions) Unfinished() (leaving, waiting []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, def := range d.byName {
		switch {
		case def.leaving:
			leaving = append(leaving, name)
		case def.waiting:
			waiting = append(waiting, name)
		}
	}
	slices.Sort(leaving)
	slices.Sort(waiting)
	return leaving, waiting
}

// StoredType returns the type that stores the objects of a definition, whether it is served or not; false when the definition is not
// known, or was never accepted.
func (d *Definitions) StoredType(name string) (*resources.Type, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	def := d.byName[name]
	if def == nil {
		return nil, false
	}
	for _, t := range def.types {
		if t.is.StorageVersion.Version == t.version {
			return t.is, true
		}
	}
	return nil, false
}
