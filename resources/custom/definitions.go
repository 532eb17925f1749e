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

// Resource is the name of definitions in the store.
const Resource = "customresourcedefinitions.apiextensions.k8s.io"

// The priorities of the groups and versions of custom resources in discovery, as kube-apiserver has them.
const (
	groupPriority   = 1000
	versionPriority = 100
)

// Config is what Definitions works with.
type Config struct {
	Registry *resources.Registry
	// Store is read and watched.
	Store resources.View
	// Scheme knows the kinds with Go types.
	Scheme resources.Scheme
	Logger *slog.Logger
	// RouteToEndpoints sends what is for a conversion webhook behind a Service to one of its endpoints, and not to its ClusterIP.
	RouteToEndpoints bool
}

// ReachesItself has conversion webhooks of the server's own asked within the process. It comes before anything is converted.
func (d *Definitions) ReachesItself(by http.RoundTripper) { d.lines.loopback = by }

// Definitions serves what the stored definitions define: it adds their types to a registry, changes and removes them.
//
// What a Commit of this server wrote is served by the next request that begins after it (Refresh); of what other servers wrote,
// Latest knows all that was acknowledged before it was called. It is safe for concurrent use.
type Definitions struct {
	Config
	// builtin are the versions that are served without definitions, and builtinNames the names in their groups. No definition
	// changes them.
	builtin      map[schema.GroupVersion]bool
	builtinNames map[string]names

	compiled  compiled
	validated validated
	repeats   repeats
	schemas   leanSchemas
	// quiet remembers definitions that there was nothing to warn of.
	quiet seen
	// parts remembers what was found valid, and without a warning, within schemas.
	parts seen
	// patterns remembers regular expressions that are valid.
	patterns seen
	// verdicts are of the rules in CEL that were found valid.
	verdicts recent[verdict]

	// lines lead to conversion webhooks.
	lines lines

	// woken counts how often there was something new, and applied is the count up to which all that was new is served.
	woken, applied atomic.Int64
	// through is the revision up to which all is served.
	through atomic.Int64
	changed chan struct{}

	// applying is held by who takes up what is new: the store may keep it waiting, and so who needs what is new, but nobody else.
	applying chan struct{}
	// watch returns all that reads have shown. alarm tells, without being asked, that there is more: of what this server commits
	// before anybody sees it, of what others do some time later. Nil: to be opened.
	watch, alarm resources.Watch
	closed       bool

	// mu guards what is known, and is held for no longer than it takes to look or to change it.
	mu     sync.Mutex
	byName map[string]*definition
}

// New returns what serves the definitions. groups are all that is served without them, before it is registered: the type of the
// definitions is among them, and gets its rules.
func New(c Config, groups []resources.GroupSpec) *Definitions {
	d := &Definitions{Config: c, builtin: map[schema.GroupVersion]bool{}, builtinNames: map[string]names{},
		changed: make(chan struct{}, 1), applying: make(chan struct{}, 1), byName: map[string]*definition{}, compiled: compiled{room: compiledRoom}}
	d.lines.config, d.lines.behind = &d.Config, behind.New(c.Store, c.Registry)
	d.woken.Store(1)
	for _, g := range groups {
		n := names{sets.New[string](), sets.New[string]()}
		for _, v := range g.Versions {
			d.builtin[schema.GroupVersion{Group: g.Name, Version: v.Version}] = true
			for _, t := range v.Types {
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

// reserveKinds takes the names of kinds with Go types whether they are served or not: what is stored of them stays theirs.
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

// Run serves what definitions become, until ctx ends, although nobody asks.
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

// Refresh serves what this server has written. It costs nothing when that is served already.
//
// Errors: those of resources.Watcher and resources.Reader; what was served before goes on being served.
func (d *Definitions) Refresh(ctx context.Context) error {
	if d.applied.Load() == d.woken.Load() {
		return nil
	}
	return d.Seen(ctx)
}

// Seen serves all that any read of this server has shown before the call, of its own and of others. Errors: as Refresh.
func (d *Definitions) Seen(ctx context.Context) error {
	select {
	case d.applying <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.applying }()
	return d.apply(ctx)
}

// SeenUntil is Seen as far as a revision goes that this server has shown. It costs nothing when that is served already.
func (d *Definitions) SeenUntil(ctx context.Context, revision int64) error {
	if d.through.Load() >= revision {
		return nil
	}
	return d.Seen(ctx)
}

// Latest serves all that was stored before the call, by whatever server. Errors: as Refresh.
func (d *Definitions) Latest(ctx context.Context) error {
	if _, err := d.Store.Snapshot(ctx, Resource, resources.At{Match: resources.MostRecent}); err != nil {
		return err
	}
	return d.Seen(ctx)
}

// page is how many events are taken at a time, and pause how long Run waits after an error.
const (
	page  = 256
	pause = time.Second
)

// apply takes all events that there are. Nobody else does so meanwhile.
func (d *Definitions) apply(ctx context.Context) error {
	if d.closed {
		return resources.ErrClosed
	}
	woken := d.woken.Load() // what wakes from here on is counted once more, and looked for by somebody else
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

// take takes a page of events; done: there are no more.
func (d *Definitions) take(ctx context.Context) (done bool, err error) {
	for rest := d.applied.Load() != d.woken.Load(); rest; { // so that the alarm goes off again
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

// edit changes what is known and what is served.
func (d *Definitions) edit(change func(*resources.Edit)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.Registry.Edit(change)
}

// observe serves what changes have come to, in one step.
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

// put makes what is served of a definition that of next; nil: nothing.
func (d *Definitions) put(e *resources.Edit, name string, next *definition) {
	if before := d.byName[name]; before != nil {
		for _, version := range before.served {
			if next == nil || !next.serves(version, before) {
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
		if !d.builtin[next.gv(version)] { // all of that is built in, as in kube-apiserver
			e.SetType(next.gv(version), groupPriority, versionPriority, next.types.of(version))
		}
	}
}

// serves tells whether a definition serves, in a version, what another did.
func (d *definition) serves(version string, before *definition) bool {
	for _, v := range d.served {
		if v == version {
			return d.types.of(v).GroupResource == before.types.of(v).GroupResource
		}
	}
	return false
}

// Unfinished returns the names of the definitions that are being deleted, and of those others that lack names or have been given them
// and are not established; each in their order.
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

// StoredType returns the type by which the objects of a definition are stored, whether it is served or not; false when the
// definition is not known, or has never been accepted.
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
