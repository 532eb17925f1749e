package requestctx

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/apiserver/pkg/endpoints/request"
)

// WithLatencyTrackers is request.WithLatencyTrackers, in place, and with trackers of our own, which are allocated together. As
// upstream's, some trackers add up and others keep the longest duration: a test compares both.
func WithLatencyTrackers(ctx context.Context) context.Context {
	t := &trackers{}
	t.LatencyTrackers = request.LatencyTrackers{
		MutatingWebhookTracker: &t.mutating, ValidatingWebhookTracker: &t.validating, AuthenticationTracker: &t.authentication,
		AuthorizationTracker: &t.authorization, APFQueueWaitTracker: &t.queue, StorageTracker: &t.storage, TransformTracker: &t.transform,
		SerializationTracker: &t.serialization, ResponseWriteTracker: &t.write, DecodeTracker: &t.decode, ImpersonationTracker: &t.impersonation,
	}
	return Set(ctx, trackersKey, &t.LatencyTrackers)
}

// trackers are the trackers of one request.
type trackers struct {
	request.LatencyTrackers
	mutating, authentication, storage, transform, serialization, write, decode, impersonation sum
	validating, authorization, queue                                                          longest
}

// sum adds durations up. It is safe for concurrent use.
type sum struct{ total atomic.Int64 }

// Track implements request.DurationTracker.
func (s *sum) Track(f func()) { track(s, f) }

// TrackDuration implements request.DurationTracker.
func (s *sum) TrackDuration(d time.Duration) { s.total.Add(int64(d)) }

// GetLatency implements request.DurationTracker.
func (s *sum) GetLatency() time.Duration { return time.Duration(s.total.Load()) }

// longest keeps the longest duration. It is safe for concurrent use.
type longest struct{ most atomic.Int64 }

// Track implements request.DurationTracker.
func (l *longest) Track(f func()) { track(l, f) }

// TrackDuration implements request.DurationTracker.
func (l *longest) TrackDuration(d time.Duration) {
	for before := l.most.Load(); int64(d) > before && !l.most.CompareAndSwap(before, int64(d)); before = l.most.Load() {
	}
}

// GetLatency implements request.DurationTracker.
func (l *longest) GetLatency() time.Duration { return time.Duration(l.most.Load()) }

// track measures f, also if f panics.
func track(t request.DurationTracker, f func()) {
	began := time.Now()
	defer func() { t.TrackDuration(time.Since(began)) }()
	f()
}
