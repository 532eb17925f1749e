package e2e

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/features"
	featurestesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/rowlock/rowlock/e2e/harness"
)

// TestEncodings uses every client of client-go in every encoding that it supports, and informers with and without a streamed list.
func TestEncodings(t *testing.T) {
	server := startServer(t, harness.RowlockOptions{Args: []string{"--feature-gates", "CBORServingAndStorage=true"}})
	for _, mode := range []struct{ media, stream string }{
		{runtime.ContentTypeJSON, runtime.ContentTypeJSON},
		{runtime.ContentTypeProtobuf, runtime.ContentTypeProtobuf + ";stream=watch"},
		{runtime.ContentTypeCBOR, runtime.ContentTypeCBORSequence},
	} {
		t.Run(mode.media, func(t *testing.T) {
			config, err := server.Config()
			if err != nil {
				t.Fatal(err)
			}
			config.QPS = -1
			if mode.media == runtime.ContentTypeCBOR {
				featurestesting.SetFeatureDuringTest(t, features.ClientsAllowCBOR, true)
				featurestesting.SetFeatureDuringTest(t, features.ClientsPreferCBOR, true)
			}
			config.ContentType, config.AcceptContentTypes = mode.media, mode.media
			seen := &mediaTypes{}
			config.Wrap(seen.record)
			clients(t, config)
			for _, media := range []string{mode.media, mode.stream} {
				if !seen.has(media) {
					t.Errorf("nothing was answered as %s", media)
				}
			}
		})
	}
}

// clients uses all clients of one configuration.
func clients(t *testing.T, config *rest.Config) {
	typed, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("typed", func(t *testing.T) { typedClient(t, typed, newNamespaceOf(t, typed)) })
	t.Run("dynamic and metadata", func(t *testing.T) {
		untyped := rest.CopyConfig(config)
		untyped.ContentType, untyped.AcceptContentTypes = "", "" // left to the clients: the dynamic client supports no protobuf
		untypedClients(t, untyped, newNamespaceOf(t, typed))
	})
	for name, streamed := range map[string]bool{"informers that list": false, "informers that stream the list": true} {
		t.Run(name, func(t *testing.T) {
			featurestesting.SetFeatureDuringTest(t, features.WatchListClient, streamed)
			sharedInformers(t, typed, newNamespaceOf(t, typed))
		})
	}
}

// TestRuntimeClient checks that controller-runtime's client and its cache see the same objects. They choose the encodings themselves: protobuf unless
// there is a reason against it.
func TestRuntimeClient(t *testing.T) {
	log.SetLogger(logr.Discard())
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	namespace := newNamespace(t)
	direct, err := client.New(shared.config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cached, err := cache.New(shared.config, cache.Options{DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	arrived := make(chan string, 10)
	informer, err := cached.GetInformer(ctx, &corev1.ConfigMap{}, cache.BlockUntilSynced(false))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: func(o any) { arrived <- o.(*corev1.ConfigMap).Name }}); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cached.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	applied := applycorev1.ConfigMap("applied", namespace).WithData(map[string]string{"a": "1"})
	if err := direct.Apply(ctx, applied, client.FieldOwner("e2e"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	for name := ""; name != "applied"; {
		select {
		case name = <-arrived:
		case <-time.After(patience):
			t.Fatal("the cache has not heard of what was applied")
		}
	}
	var got, fromCache corev1.ConfigMap
	key := client.ObjectKey{Namespace: namespace, Name: "applied"}
	if err := direct.Get(ctx, key, &got); err != nil {
		t.Fatal(err)
	}
	if err := cached.Get(ctx, key, &fromCache); err != nil {
		t.Fatal(err)
	}
	got.TypeMeta, fromCache.TypeMeta = metav1.TypeMeta{}, metav1.TypeMeta{} // only one of them sets it
	if diff := cmp.Diff(got, fromCache); diff != "" || got.Data["a"] != "1" {
		t.Errorf("the cache differs (-server +cache):\n%s", diff)
	}
	partial := &metav1.PartialObjectMetadataList{}
	partial.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMapList"))
	if err := direct.List(ctx, partial, client.InNamespace(namespace), client.MatchingFields{"metadata.name": "applied"}); err != nil || len(partial.Items) != 1 || partial.Items[0].UID != got.UID {
		t.Errorf("metadata: %+v, %v", partial.Items, err)
	}
}

// mediaTypes are those of the answers to a client.
type mediaTypes struct{ all sync.Map }

func (m *mediaTypes) has(media string) bool {
	_, ok := m.all.Load(media)
	return ok
}

func (m *mediaTypes) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := next.RoundTrip(r)
		if err == nil {
			m.all.Store(response.Header.Get("Content-Type"), true)
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
