package aggregate

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/follow"
	"github.com/rowlock/rowlock/server/discovery"
	"github.com/rowlock/rowlock/server/openapi"
)

// refreshInterval is how often a server is polled. firstPause is the first pause after a server did not answer, which doubles.
// Both are upstream's.
const (
	refreshInterval = time.Minute
	firstPause      = 500 * time.Millisecond
)

// Run polls the discovery of other servers until ctx ends or the store is closed: each when its APIService is created or
// changed, and every minute. Without any, no goroutine runs.
func (a *Aggregator) Run(ctx context.Context) {
	ctx, stop := context.WithCancel(ctx)
	s := &a.sources
	s.ctx = ctx
	follow.Run(ctx, follow.Source{Store: a.Store, Logger: a.Logger, Name: "what other servers serve", Existing: true,
		Objects: []resources.Key{{Resource: apiServicesResource}}}, s)
	stop()
	s.work.Wait()
}

// Prepare makes discovery contain the versions of all APIServices, those of other servers as Stale until Run has asked these. It comes before the first
// request. Its errors are those of resources.Reader.
func (a *Aggregator) Prepare(ctx context.Context) error {
	t, ok := a.Registry.CatalogOf(ctx).Type(apiServicesResource)
	if !ok {
		return nil
	}
	all, err := a.Store.Snapshot(ctx, t.ResourceName(), resources.At{Match: resources.Any})
	if err != nil {
		return err
	}
	s := &a.sources
	s.mu.Lock()
	defer s.mu.Unlock()
	s.untried = map[string]bool{}
	all.Ascend("", "", func(o *resources.Object) bool {
		if !bytes.Contains(o.Data, []byte(`"service":`)) {
			return true // there may be thousands without a Service
		}
		obj, err := t.DecodeStored(o)
		if err != nil {
			return true // Run reports it
		}
		if is := obj.(*apiregistrationv1.APIService); isRemote(is) {
			s.add(is)
			s.untried[is.Name] = true
		}
		return true
	})
	s.publish()
	return nil
}

// Asked reports whether each server that Prepare has found was asked for its discovery, which takes some seconds where one does not answer.
func (a *Aggregator) Asked() bool {
	s := &a.sources
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.untried) == 0
}

// sources are the APIServices with a Service. It is a follow.Handler.
type sources struct {
	owner *Aggregator
	ctx   context.Context // of Run
	work  sync.WaitGroup

	// untried are the APIServices of Prepare whose servers were not asked yet. mu guards it.
	untried map[string]bool
	// gone are the APIServices that existed before history was lost and had no event since. Only the follower uses it.
	gone map[string]bool
	// mu guards all, and the fields of each source except its channel.
	mu  sync.Mutex
	all map[string]*source
}

// source is an APIService with a Service.
type source struct {
	is   *apiregistrationv1.APIService
	wake [2]chan struct{}   // trigger a request at once: for discovery, for OpenAPI documents
	stop context.CancelFunc // nil: it is not polled yet
	// said is the last answer of its server, and etag the ETag of that answer.
	said *apidiscoveryv2.APIVersionDiscovery
	etag string
	// fresh: the server answered the last request.
	fresh bool
	// described holds its OpenAPI documents and is only for describe; known is the published part.
	described *description
	known     openapi.ExternalVersion
}

// Begin implements follow.Handler.
func (s *sources) Begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gone = map[string]bool{}
	for name := range s.all {
		s.gone[name] = true
	}
}

// Observe implements follow.Handler.
func (s *sources) Observe(events []*resources.Event) {
	t, ok := s.owner.Registry.Catalog().Type(apiServicesResource)
	if !ok {
		return
	}
	for _, e := range events {
		name := e.Object.Name
		delete(s.gone, name)
		if e.Op == resources.Delete {
			s.remove(name)
			continue
		}
		obj, err := t.DecodeStored(e.Object)
		if err != nil {
			s.owner.Logger.Error("an APIService cannot be read", "name", name, "error", err)
			continue
		}
		if is := obj.(*apiregistrationv1.APIService); isRemote(is) {
			s.put(is)
		} else {
			s.remove(name)
		}
	}
}

// isRemote reports whether another server serves the version of an APIService. The core group and that of APIServices are served here, whatever an
// APIService says: it could not be changed or deleted if the requests for it went to another server.
func isRemote(is *apiregistrationv1.APIService) bool {
	return is.Spec.Service != nil && is.Spec.Group != "" && is.Spec.Group != apiregistrationv1.GroupName
}

// Turn implements follow.Handler.
func (s *sources) Turn(_ context.Context, t follow.Turn) (time.Duration, error) {
	if !t.Quiet {
		return 0, nil
	}
	for name := range s.gone {
		s.remove(name)
	}
	s.gone = nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.publish()
	return 0, nil
}

// put polls an APIService that was created or changed.
func (s *sources) put(is *apiregistrationv1.APIService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src := s.add(is)
	if src.stop != nil {
		for _, wake := range src.wake {
			select {
			case wake <- struct{}{}:
			default: // a request is already due
			}
		}
		return
	}
	var ctx context.Context
	ctx, src.stop = context.WithCancel(s.ctx)
	s.work.Go(func() { keep(ctx, src.wake[0], func() bool { return s.refresh(ctx, src) }) })
	s.work.Go(func() { keep(ctx, src.wake[1], func() bool { return s.describe(ctx, src) }) })
}

// add returns the source of an APIService, which may be a new one. The caller holds s.mu.
func (s *sources) add(is *apiregistrationv1.APIService) *source {
	src := s.all[is.Name]
	if src == nil {
		src = &source{wake: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)},
			described: s.owner.newDescription(schema.GroupVersion{Group: is.Spec.Group, Version: is.Spec.Version})}
		s.all[is.Name] = src
	}
	src.is = is
	return src
}

func (s *sources) remove(name string) {
	s.owner.forget(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.untried, name)
	if src, ok := s.all[name]; ok {
		if src.stop != nil {
			src.stop()
		}
		delete(s.all, name)
	}
}

// keep polls the server of an APIService until ctx ends. The function poll returns false when the server did not answer properly.
func keep(ctx context.Context, wake <-chan struct{}, poll func() bool) {
	pause := firstPause
	for {
		wait := refreshInterval
		if poll() {
			pause = firstPause
		} else {
			wait = pause
			pause = min(2*pause, refreshInterval)
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// refresh polls once, and publishes the answer. It returns false when the server did not answer.
func (s *sources) refresh(ctx context.Context, src *source) bool {
	s.mu.Lock()
	gv := schema.GroupVersion{Group: src.is.Spec.Group, Version: src.is.Spec.Version}
	q := question{a: s.owner, gv: gv, etag: src.etag}
	s.mu.Unlock()
	s.owner.behind.Forget() // entries of objects that are gone must not stay for ever
	said, etag, err := q.ask(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return true // the APIService is no longer polled
	}
	switch {
	case err == nil:
		src.said, src.etag = said, etag
	case errors.Is(err, errSame):
		err = nil
	default:
		s.owner.Logger.Debug("a server does not say what it serves", "version", gv, "error", err)
	}
	src.fresh = err == nil
	delete(s.untried, src.is.Name)
	s.publish()
	return src.fresh
}

// describe polls the OpenAPI documents once, and publishes the answer. It returns false when the server did not answer properly.
func (s *sources) describe(ctx context.Context, src *source) bool {
	err := src.described.refresh(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return true
	}
	if err != nil {
		s.owner.Logger.Debug("a server does not describe what it serves", "version", src.described.gv, "error", err)
	}
	src.known = src.described.external()
	s.publish()
	return err == nil
}

// publish publishes the discovery of all sources, if it has changed. The caller holds s.mu.
func (s *sources) publish() {
	var now []discovery.ExternalVersion
	for _, src := range s.all {
		v := discovery.ExternalVersion{GroupVersion: schema.GroupVersion{Group: src.is.Spec.Group, Version: src.is.Spec.Version},
			GroupPriority: int(src.is.Spec.GroupPriorityMinimum), VersionPriority: int(src.is.Spec.VersionPriority)}
		if src.said != nil {
			v.Discovery = *src.said
		}
		v.Discovery.Version, v.Discovery.Freshness = v.GroupVersion.Version, apidiscoveryv2.DiscoveryFreshnessStale
		if src.fresh {
			v.Discovery.Freshness = apidiscoveryv2.DiscoveryFreshnessCurrent
		}
		now = append(now, v)
	}
	slices.SortFunc(now, func(a, b discovery.ExternalVersion) int {
		return strings.Compare(a.GroupVersion.String(), b.GroupVersion.String())
	})
	before := s.owner.external.Load()
	switch {
	case len(now) == 0:
		s.owner.external.Store(nil)
	case before == nil || !apiequality.Semantic.DeepEqual(before.Versions, now):
		s.owner.external.Store(&discovery.External{Versions: now})
	}
	s.publishDescriptions()
}

// publishDescriptions is publish for OpenAPI documents. Documents of groups with a higher priority come first, whatever the
// priorities of versions, as in upstream: when definitions with the same name differ, the first keeps the name.
func (s *sources) publishDescriptions() {
	var described []*source
	priorities := map[string]int32{}
	for _, src := range s.all {
		group := src.is.Spec.Group
		priorities[group] = max(priorities[group], src.is.Spec.GroupPriorityMinimum)
		if src.known.V2 != nil || len(src.known.V3) > 0 {
			described = append(described, src)
		}
	}
	slices.SortFunc(described, func(a, b *source) int {
		return cmp.Or(cmp.Compare(priorities[b.is.Spec.Group], priorities[a.is.Spec.Group]), strings.Compare(a.is.Name, b.is.Name))
	})
	now := &descriptions{}
	for _, src := range described {
		now.of = append(now.of, src.described)
		now.external.Versions = append(now.external.Versions, src.known)
	}
	before := s.owner.descriptions.Load()
	switch {
	case len(described) == 0:
		s.owner.descriptions.Store(nil)
	case before == nil || !before.equal(now):
		s.owner.descriptions.Store(now)
	}
}

// descriptions are the published OpenAPI documents.
type descriptions struct {
	external openapi.External
	of       []*description
}

func (d *descriptions) equal(other *descriptions) bool {
	return slices.Equal(d.of, other.of) && slices.EqualFunc(d.external.Versions, other.external.Versions, func(a, b openapi.ExternalVersion) bool {
		return a.V2 == b.V2 && maps.Equal(a.V3, b.V3)
	})
}
