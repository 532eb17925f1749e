package admission

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/initializer"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	api "k8s.io/kubernetes/pkg/apis/core"
	storageapi "k8s.io/kubernetes/pkg/apis/storage"
	"k8s.io/kubernetes/pkg/features"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageclass/setdefault"
	"k8s.io/kubernetes/plugin/pkg/admission/storage/storageobjectinuseprotection"
)

// pair is a plugin of this package, and upstream's of the same name.
type pair struct{ ours, upstreams admission.Interface }

func newPair(t *testing.T, name string, register func(*admission.Plugins), informers informers.SharedInformerFactory) pair {
	t.Helper()
	made := func(register func(*admission.Plugins)) admission.Interface {
		plugins := admission.NewPlugins()
		register(plugins)
		p, err := plugins.InitPlugin(name, nil, initializer.New(nil, nil, informers, nil, nil, nil, nil, nil))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, p := range ordered(Config{}, nil) {
		if p.Name == name {
			return pair{made(p.register), made(register)}
		}
	}
	t.Fatalf("no plugin %s", name)
	return pair{}
}

// admit sends an object through both plugins, which have to agree, and returns the result.
func (p pair) admit(t *testing.T, gr schema.GroupResource, subresource string, obj runtime.Object) runtime.Object {
	t.Helper()
	for _, op := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
		if ours, upstreams := p.ours.Handles(op), p.upstreams.Handles(op); ours != upstreams {
			t.Errorf("handles %s: %v, upstream %v", op, ours, upstreams)
		}
	}
	through := func(plugin admission.Interface) (runtime.Object, string) {
		obj := obj.DeepCopyObject()
		attrs := admission.NewAttributesRecord(obj, nil, schema.GroupVersionKind{}, "ns", "name", gr.WithVersion("v1"), subresource,
			admission.Create, &metav1.CreateOptions{}, false, nil)
		// A plugin may be called again after a webhook, and must not add anything then.
		for range 2 {
			if err := plugin.(admission.MutationInterface).Admit(context.Background(), attrs, nil); err != nil {
				return obj, err.Error()
			}
		}
		return obj, ""
	}
	ours, ourError := through(p.ours)
	upstreams, upstreamsError := through(p.upstreams)
	if diff := cmp.Diff(upstreams, ours); diff != "" || ourError != upstreamsError {
		t.Errorf("%s/%s: error %q, upstream %q; %s", gr, subresource, ourError, upstreamsError, diff)
	}
	return ours
}

func class(name string, made time.Time, annotations map[string]string) *storagev1.StorageClass {
	return &storagev1.StorageClass{Provisioner: name,
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(made), Annotations: annotations}}
}

func TestDefaultStorageClassIsUpstreams(t *testing.T) {
	const annotation, beta = "storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"
	yes := map[string]string{annotation: "true"}
	now := time.Date(2022, 1, 1, 0, 0, 1, 0, time.UTC)
	others := []*storagev1.StorageClass{class("none", now, nil), class("false", now, map[string]string{annotation: "false"}),
		class("empty", now, map[string]string{annotation: ""}), class("True", now, map[string]string{annotation: "True", beta: "1"})}
	for name, c := range map[string]struct {
		classes []*storagev1.StorageClass
		want    string
	}{
		"nothing":             {},
		"one":                 {[]*storagev1.StorageClass{class("a", now, yes)}, "a"},
		"beta":                {[]*storagev1.StorageClass{class("a", now, map[string]string{beta: "true", annotation: "false"})}, "a"},
		"two, the newer one":  {[]*storagev1.StorageClass{class("a", now.Add(-time.Second), yes), class("b", now, yes)}, "b"},
		"two of the same age": {[]*storagev1.StorageClass{class("b", now, yes), class("a", now, yes)}, "a"},
		"two without an age":  {[]*storagev1.StorageClass{class("b", time.Time{}, yes), class("a", time.Time{}, yes)}, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			factory := informers.NewSharedInformerFactory(nil, 0)
			for _, class := range append(c.classes, others...) {
				if err := factory.Storage().V1().StorageClasses().Informer().GetStore().Add(class); err != nil {
					t.Fatal(err)
				}
			}
			p := newPair(t, "DefaultStorageClass", setdefault.Register, factory)
			gr := api.Resource("persistentvolumeclaims")
			claim := &api.PersistentVolumeClaim{}
			got := ""
			if name := p.admit(t, gr, "", claim).(*api.PersistentVolumeClaim).Spec.StorageClassName; name != nil {
				got = *name
			}
			if got != c.want {
				t.Errorf("got class %q, want %q", got, c.want)
			}
			empty, named := "", "named"
			p.admit(t, gr, "", &api.PersistentVolumeClaim{Spec: api.PersistentVolumeClaimSpec{StorageClassName: &empty}})
			p.admit(t, gr, "", &api.PersistentVolumeClaim{Spec: api.PersistentVolumeClaimSpec{StorageClassName: &named}})
			p.admit(t, gr, "", &api.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
				Annotations: map[string]string{"volume.beta.kubernetes.io/storage-class": "old"}}})
			p.admit(t, gr, "status", claim)
			p.admit(t, gr, "", &api.Pod{})
			p.admit(t, api.Resource("pods"), "", claim)
			p.admit(t, schema.GroupResource{Group: "other", Resource: gr.Resource}, "", claim)
		})
	}
}

// A missing lister is an error at the start, not at the first claim.
func TestDefaultStorageClassWantsClasses(t *testing.T) {
	if err := (&DefaultStorageClass{}).ValidateInitialization(); err == nil || err.Error() != "missing lister" {
		t.Errorf("got %v", err)
	}
}

func TestStorageObjectInUseProtectionIsUpstreams(t *testing.T) {
	for _, on := range []bool{true, false} {
		t.Run(fmt.Sprintf("VolumeAttributesClass=%v", on), func(t *testing.T) {
			if !on { // only the emulation of an older release can switch it off
				featuregatetesting.SetFeatureGateEmulationVersionDuringTest(t, utilfeature.DefaultFeatureGate, version.MustParse("1.35"))
			}
			featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.VolumeAttributesClass, on)
			p := newPair(t, "StorageObjectInUseProtection", storageobjectinuseprotection.Register, nil)
			for _, c := range []struct {
				gr        schema.GroupResource
				obj       runtime.Object
				finalizer string
				protected bool
			}{
				{api.Resource("persistentvolumes"), &api.PersistentVolume{}, volumeutil.PVProtectionFinalizer, true},
				{api.Resource("persistentvolumeclaims"), &api.PersistentVolumeClaim{}, volumeutil.PVCProtectionFinalizer, true},
				{storageapi.Resource("volumeattributesclasses"), &storageapi.VolumeAttributesClass{}, volumeutil.VACProtectionFinalizer, on},
			} {
				for _, before := range [][]string{nil, {"other"}, {c.finalizer}, {"other", c.finalizer}} {
					obj := c.obj.DeepCopyObject().(metav1.Object)
					obj.SetFinalizers(before)
					got := p.admit(t, c.gr, "", obj.(runtime.Object)).(metav1.Object).GetFinalizers()
					want := before
					if c.protected && (len(before) == 0 || before[len(before)-1] != c.finalizer) {
						want = append(append([]string{}, before...), c.finalizer)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s %v: %s", c.gr, before, diff)
					}
				}
				p.admit(t, c.gr, "status", c.obj)
				p.admit(t, api.Resource("pods"), "", c.obj)
				if c.gr.Resource != "volumeattributesclasses" { // upstream's panics
					p.admit(t, c.gr, "", &api.Pod{})
				}
			}
		})
	}
}
