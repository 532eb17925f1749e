package sqlstore

import (
	"context"
	"io"
	"log/slog"
	"path/filepath"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	"k8s.io/apiserver/pkg/storage"
	storagetesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"

	"github.com/rowlock/rowlock/resources"
)

// TestUpstream runs the tests that kube-apiserver has for its stores. All of them are here but those that cannot apply:
//
//   - RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError, RunTestDeleteExpectedTransformOrDecodeError,
//     RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError, RunTestGetListWithErrorAggregation,
//     RunTestGetListWithoutErrorAggregation, RunTestTransformationFailure, RunTestWatchError,
//     RunTestWatchWithUnsafeDelete, RunWatchErrorIsBlockingFurtherEvents: about data that cannot be decrypted or
//     decoded. A resources.Store neither transforms nor decodes: it keeps bytes.
//   - RunTestGuaranteedUpdate, RunTestGuaranteedUpdateChecksStoredData, RunTestListResourceVersionMatch: change the
//     transformer in between, too. What else they check is in package storetest.
//   - RunTestKeySchema: about the syntax of keys of etcd. A resources.Key has no syntax.
func TestUpstream(t *testing.T) {
	for name, run := range map[string]func(context.Context, *testing.T, *upstreamHarness){
		"Create": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestCreate(ctx, t, h, h.validate)
		},
		"CreateWithTTL":                          plain(storagetesting.RunTestCreateWithTTL),
		"CreateWithKeyExist":                     plain(storagetesting.RunTestCreateWithKeyExist),
		"Get":                                    plain(storagetesting.RunTestGet),
		"UnconditionalDelete":                    plain(storagetesting.RunTestUnconditionalDelete),
		"ConditionalDelete":                      plain(storagetesting.RunTestConditionalDelete),
		"DeleteWithSuggestion":                   plain(storagetesting.RunTestDeleteWithSuggestion),
		"DeleteWithSuggestionAndConflict":        plain(storagetesting.RunTestDeleteWithSuggestionAndConflict),
		"DeleteWithConflict":                     plain(storagetesting.RunTestDeleteWithConflict),
		"DeleteWithSuggestionOfDeletedObject":    plain(storagetesting.RunTestDeleteWithSuggestionOfDeletedObject),
		"ValidateDeletionWithSuggestion":         plain(storagetesting.RunTestValidateDeletionWithSuggestion),
		"ValidateDeletionWithOnlySuggestion":     plain(storagetesting.RunTestValidateDeletionWithOnlySuggestionValid),
		"PreconditionalDeleteWithSuggestion":     plain(storagetesting.RunTestPreconditionalDeleteWithSuggestion),
		"PreconditionalDeleteWithSuggestionPass": plain(storagetesting.RunTestPreconditionalDeleteWithOnlySuggestionPass),
		"List": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestList(ctx, t, h, h.compact, false, nil)
		},
		"ConsistentList": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestConsistentList(ctx, t, h, h.increase, false, true, false)
		},
		"GetListNonRecursive": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestGetListNonRecursive(ctx, t, h.increase, h)
		},
		"GetListRecursivePrefix": plain(storagetesting.RunTestGetListRecursivePrefix),
		"ListContinuation": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestListContinuation(ctx, t, h, noCalls)
		},
		"ListPaginationRareObject": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestListPaginationRareObject(ctx, t, h, noCalls)
		},
		"ListContinuationWithFilter": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestListContinuationWithFilter(ctx, t, h, noCalls)
		},
		"ListInconsistentContinuation": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestListInconsistentContinuation(ctx, t, h, h.compact)
		},
		"GuaranteedUpdateWithTTL":                   plain(storagetesting.RunTestGuaranteedUpdateWithTTL),
		"GuaranteedUpdateWithConflict":              plain(storagetesting.RunTestGuaranteedUpdateWithConflict),
		"GuaranteedUpdateWithSuggestionAndConflict": plain(storagetesting.RunTestGuaranteedUpdateWithSuggestionAndConflict),
		"Stats": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestStats(ctx, t, h, h.codec, identity.NewEncryptCheckTransformer(), false)
		},
		"ListPaging":          plain(storagetesting.RunTestListPaging),
		"NamespaceScopedList": plain(storagetesting.RunTestNamespaceScopedList),
		"CompactRevision": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestCompactRevision(ctx, t, h, h.increase, h.compact)
		},
		"Watch": plain(storagetesting.RunTestWatch),
		"WatchFromZero": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestWatchFromZero(ctx, t, h, h.compact)
		},
		"DeleteTriggerWatch":                 plain(storagetesting.RunTestDeleteTriggerWatch),
		"WatchFromNonZero":                   plain(storagetesting.RunTestWatchFromNonZero),
		"DelayedWatchDelivery":               plain(storagetesting.RunTestDelayedWatchDelivery),
		"WatchContextCancel":                 plain(storagetesting.RunTestWatchContextCancel),
		"WatcherTimeout":                     plain(storagetesting.RunTestWatcherTimeout),
		"WatchDeleteEventObjectHaveLatestRV": plain(storagetesting.RunTestWatchDeleteEventObjectHaveLatestRV),
		"WatchInitializationSignal":          plain(storagetesting.RunTestWatchInitializationSignal),
		"ProgressNotify": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunOptionalTestProgressNotify(ctx, t, h, h.increase)
		},
		"ClusterScopedWatch":   plain(storagetesting.RunTestClusterScopedWatch),
		"NamespaceScopedWatch": plain(storagetesting.RunTestNamespaceScopedWatch),
		"WatchDispatchBookmarkEvents": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestWatchDispatchBookmarkEvents(ctx, t, h, true)
		},
		"WatchBookmarksWithCorrectResourceVersion": func(ctx context.Context, t *testing.T, h *upstreamHarness) {
			storagetesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion(ctx, t, unhurried{h})
		},
		"SendInitialEventsBackwardCompatibility": plain(storagetesting.RunSendInitialEventsBackwardCompatibility),
		"WatchSemantics":                         plain(storagetesting.RunWatchSemantics),
		"WatchSemanticInitialEventsExtended":     plain(storagetesting.RunWatchSemanticInitialEventsExtended),
		"WatchListMatchSingle":                   plain(storagetesting.RunWatchListMatchSingle),
	} {
		t.Run(name, func(t *testing.T) { run(t.Context(), t, newUpstreamHarness(t)) })
	}
}

// unhurried makes no create end with its context. The watch of a test ends after three seconds, and its creates with it: on a slow machine one of them
// met that end first, which the test takes for a failure.
type unhurried struct{ *upstreamHarness }

func (u unhurried) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	return u.upstreamHarness.Create(context.WithoutCancel(ctx), key, obj, out, ttl)
}

func plain(run func(context.Context, *testing.T, storage.Interface)) func(context.Context, *testing.T, *upstreamHarness) {
	return func(ctx context.Context, t *testing.T, h *upstreamHarness) { run(ctx, t, h) }
}

// noCalls is for tests that count calls to etcd. There are none, and no counterpart: lists are read from memory.
func noCalls(*testing.T, uint64, uint64) {}

// upstreamHarness is a fresh store as storage.Interface, with operations that upstream's tests use outside of that
// interface.
type upstreamHarness struct {
	*upstreamStore
	sql *Store
}

func newUpstreamHarness(t *testing.T) *upstreamHarness {
	t.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	s, err := Open(context.Background(), Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "rowlock.db"),
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	codec := serializer.NewCodecFactory(scheme).LegacyCodec(examplev1.SchemeGroupVersion)
	return &upstreamHarness{upstreamStore: &upstreamStore{store: s, codec: codec}, sql: s}
}

// compact prunes history up to a revision. It raises the revision, as a compaction of etcd by kube-apiserver does.
func (h *upstreamHarness) compact(ctx context.Context, t *testing.T, resourceVersion string) {
	t.Helper()
	rv, err := h.versioner.ParseResourceVersion(resourceVersion)
	if err != nil {
		t.Fatal(err)
	}
	h.compacted.Store(int64(rv))
	if _, err := h.sql.janitor.task(func() error {
		h.sql.floor.Store(int64(rv))
		_, err := h.sql.db.prune(int64(rv))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	h.increase(ctx, t)
}

// increase raises the revision by writing another object.
func (h *upstreamHarness) increase(ctx context.Context, t *testing.T) int64 {
	t.Helper()
	w := createMap(t, "increase")
	if o, err := h.store.Get(ctx, w.Key, resources.At{}); err == nil {
		w.Op, w.From = resources.Update, o.Revision
	}
	stored, err := h.store.Commit(ctx, w)
	if err != nil {
		t.Fatal(err)
	}
	return stored[0].Revision
}

// validate checks that a key has an object of that name.
func (h *upstreamHarness) validate(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	pod := &example.Pod{}
	if err := h.Get(ctx, key, storage.GetOptions{}, pod); err != nil || upstreamKey(key) != pods(pod.Namespace, pod.Name) {
		t.Errorf("%s has %s/%s, %v", key, pod.Namespace, pod.Name, err)
	}
}
