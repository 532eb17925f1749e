package codec_test

import (
	"bufio"
	"bytes"
	stdjson "encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/server/codec"
)

const revision = 4711

// sample is an object in its stored form, with a served version of its type.
type sample struct {
	served *resources.Served
	object *resources.Object
}

// eachSample calls f for one valid object of every stored type, in every served version.
func eachSample(t *testing.T, f func(*testing.T, sample)) {
	r := resources.NewRegistry()
	r.SetGroups(builtin.Groups())
	files, err := filepath.Glob("../../e2e/testdata/types/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for documents := utilyaml.NewYAMLReader(bufio.NewReader(file)); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			eachVersion(t, r.Catalog(), document, f)
		}
	}
}

func eachVersion(t *testing.T, catalog *resources.Catalog, document []byte, f func(*testing.T, sample)) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		t.Fatal(err)
	}
	for _, g := range catalog.Groups() {
		for _, v := range g.Versions {
			for _, s := range v.Resources {
				if kind.Kind != s.Type.Kind || s.Group != kind.GroupVersionKind().Group || !s.Stored() {
					continue
				}
				t.Run(s.GroupVersionKind.String(), func(t *testing.T) { f(t, sample{s, stored(t, s, document, kind.GroupVersionKind())}) })
			}
		}
	}
}

// stored is a document's object as the store would return it.
func stored(t *testing.T, s *resources.Served, document []byte, kind schema.GroupVersionKind) *resources.Object {
	data, err := yaml.YAMLToJSON(document)
	if err != nil {
		t.Fatal(err)
	}
	serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, s.Scheme, s.Scheme, json.SerializerOptions{})
	obj, _, err := serializer.Decode(data, &kind, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Scheme.Default(obj)
	hub, err := s.ToHub(obj)
	if err != nil {
		t.Fatal(err)
	}
	m, err := meta.Accessor(hub)
	if err != nil {
		t.Fatal(err)
	}
	m.SetUID("u-i-d")
	m.SetCreationTimestamp(metav1.Unix(1700000000, 0))
	m.SetLabels(map[string]string{"a<b": "c&d"})
	if s.Namespaced {
		m.SetNamespace("test")
	}
	draft, err := s.NewDraft(t.Context(), hub)
	if err != nil {
		t.Fatal(err)
	}
	return resources.NewObject(s.KeyOf(m.GetNamespace(), m.GetName()), draft, revision)
}

// versioned is the object as upstream would encode it.
func (s sample) versioned(t *testing.T) runtime.Object {
	t.Helper()
	hub, err := s.served.DecodeHub(s.object)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := s.served.Scheme.ConvertToVersion(hub, s.served.GroupVersion())
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// list is a list with the object twice, as upstream would encode it.
func (s sample) list(t *testing.T, m metav1.ListMeta) runtime.Object {
	t.Helper()
	list, err := s.served.Scheme.New(s.served.GroupVersion().WithKind(s.served.GroupVersionKind.Kind + "List"))
	if err != nil {
		t.Fatal(err)
	}
	item := s.versioned(t)
	item.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	if err := meta.SetList(list, []runtime.Object{item, item.DeepCopyObject()}); err != nil {
		t.Fatal(err)
	}
	acc, err := meta.ListAccessor(list)
	if err != nil {
		t.Fatal(err)
	}
	acc.SetResourceVersion(m.ResourceVersion)
	acc.SetContinue(m.Continue)
	acc.SetRemainingItemCount(m.RemainingItemCount)
	list.GetObjectKind().SetGroupVersionKind(s.served.GroupVersion().WithKind(s.served.GroupVersionKind.Kind + "List"))
	return list
}

// serializers are upstream's, by media type; they are the oracles.
func (s sample) serializers() map[string]runtime.Serializer {
	return map[string]runtime.Serializer{
		codec.JSON:     json.NewSerializerWithOptions(json.DefaultMetaFactory, s.served.Scheme, s.served.Scheme, json.SerializerOptions{}),
		codec.YAML:     json.NewSerializerWithOptions(json.DefaultMetaFactory, s.served.Scheme, s.served.Scheme, json.SerializerOptions{Yaml: true}),
		codec.Protobuf: protobuf.NewSerializer(s.served.Scheme, s.served.Scheme),
		codec.CBOR:     cbor.NewSerializer(s.served.Scheme, s.served.Scheme),
	}
}

// diff compares a response with upstream's, byte for byte, except that CBOR maps may be in any order.
func diff(t *testing.T, media string, want, got []byte) string {
	t.Helper()
	if media != codec.CBOR {
		return cmp.Diff(string(want), string(got))
	}
	var w, g any
	if err := errors.Join(direct.Unmarshal(want, &w), direct.Unmarshal(got, &g)); err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, want[:3]) || len(got) != len(want) {
		t.Errorf("%d bytes %.8x…, want %d %.8x…", len(got), got, len(want), want)
	}
	return cmp.Diff(w, g)
}

// Objects of every type are encoded byte for byte as upstream's serializers encode them.
func TestObjectsAreUpstreams(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		for media, oracle := range s.serializers() {
			var want bytes.Buffer
			if err := oracle.Encode(s.versioned(t), &want); err != nil {
				t.Fatal(err)
			}
			r := codec.NewRenderer(s.served, codec.Format{Media: media})
			got, err := r.Object(s.object)
			if err != nil {
				t.Fatal(err)
			}
			if d := diff(t, media, want.Bytes(), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", media, d)
			}
			document, end, err := r.Pieces(s.object)
			if err != nil || !bytes.Equal(slices.Concat(document, end), got) {
				t.Errorf("%s: the pieces are not the whole: %v\n%s", media, err, document)
			}
		}
	})
}

func TestListsAreUpstreams(t *testing.T) { testLists(t) }

// Lists are equal to upstream's even if nothing can be cached.
func TestListsAreUpstreamsWithoutRoom(t *testing.T) {
	piece := make([]byte, resources.FormsRoom/4096)
	var full []*resources.Object
	for i := 0; i == 0 || full[i-1].Kept("room") != nil; i++ {
		full = append(full, resources.LoadObject(resources.Key{Name: "full"}, 1, nil, nil, nil))
		if _, err := full[i].FormIfRoom("room", func() ([]byte, error) { return piece, nil }); err != nil {
			t.Fatal(err)
		}
	}
	testLists(t)
	goruntime.KeepAlive(full)
}

func testLists(t *testing.T) {
	t.Helper()
	eachSample(t, func(t *testing.T, s sample) {
		for _, m := range []metav1.ListMeta{{ResourceVersion: "5"}, {ResourceVersion: "5", Continue: "next", RemainingItemCount: ptr.To[int64](9)}} {
			for media, oracle := range s.serializers() {
				var want, got bytes.Buffer
				if err := oracle.Encode(s.list(t, m), &want); err != nil {
					t.Fatal(err)
				}
				list, err := codec.NewRenderer(s.served, codec.Format{Media: media}).List([]*resources.Object{s.object, s.object}, m)
				if err != nil {
					t.Fatal(err)
				}
				if err := list.Write(&got); err != nil {
					t.Fatal(err)
				}
				if d := diff(t, media, want.Bytes(), got.Bytes()); d != "" {
					t.Errorf("%s (-want +got):\n%s", media, d)
				}
			}
		}
	})
}

// An indented list has the same contents as a compact one.
func TestIndentedLists(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		for _, f := range []codec.Format{{Media: codec.JSON}, {Media: codec.JSON, As: codec.AsTable, AsVersion: "v1"},
			{Media: codec.JSON, As: codec.AsPartial, AsList: true, AsVersion: "v1"}} {
			for _, objects := range [][]*resources.Object{nil, {s.object, s.object}} {
				var want, compact, got bytes.Buffer
				for out, pretty := range map[*bytes.Buffer]bool{&compact: false, &got: true} {
					f.Pretty = pretty
					list, err := codec.NewRenderer(s.served, f).List(objects, metav1.ListMeta{ResourceVersion: "5"})
					if err != nil {
						t.Fatal(err)
					}
					if err := list.Write(out); err != nil {
						t.Fatal(err)
					}
				}
				if err := stdjson.Indent(&want, bytes.TrimSpace(compact.Bytes()), "", "  "); err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(want.String(), got.String()); d != "" {
					t.Errorf("(-want +got):\n%s", d)
				}
			}
		}
	})
}

// client-go decodes the frames of a watch.
func TestFramesDecode(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		for _, media := range []string{codec.JSON, codec.Protobuf, codec.CBOR} {
			var out bytes.Buffer
			events := codec.NewEvents(codec.NewRenderer(s.served, codec.Format{Media: media}), false)
			status := &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Code: 410, Message: "gone"}
			if err := errors.Join(events.Event(&out, watch.Added, s.object), events.Event(&out, watch.Deleted, s.object.At(revision+1)),
				events.Bookmark(&out, revision+2, true), events.Error(&out, status)); err != nil {
				t.Fatal(err)
			}
			info, _ := runtime.SerializerInfoForMediaType(s.served.Serializer.SupportedMediaTypes(), media)
			decoder := restwatch.NewDecoder(streaming.NewDecoder(info.StreamSerializer.Framer.NewFrameReader(io.NopCloser(&out)), info.StreamSerializer.Serializer),
				s.served.Serializer.DecoderToVersion(info.Serializer, s.served.GroupVersion()))
			for i, want := range []watch.EventType{watch.Added, watch.Deleted, watch.Bookmark} {
				typ, obj, err := decoder.Decode()
				if err != nil || typ != want {
					t.Fatalf("%s: event %d is %s, %v", media, i, typ, err)
				}
				m, err := meta.Accessor(obj)
				if err != nil {
					t.Fatal(err)
				}
				if got := m.GetResourceVersion(); got != resources.FormatRevision(revision+int64(i)) {
					t.Errorf("%s: event %d has resourceVersion %s", media, i, got)
				}
				if kind := obj.GetObjectKind().GroupVersionKind(); media == codec.JSON && kind != s.served.GroupVersionKind && !kind.Empty() {
					t.Errorf("event %d is of kind %s", i, kind)
				}
				if marked := m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true"; marked != (want == watch.Bookmark) {
					t.Errorf("event %d: the end of the initial events is marked: %v", i, marked)
				}
			}
			typ, obj, err := decoder.Decode()
			if err != nil || typ != watch.Error {
				t.Fatalf("%s: the error is %s, %v", media, typ, err)
			}
			if got := obj.(*metav1.Status); got.Code != status.Code || got.Message != status.Message {
				t.Errorf("%s: the error is %v", media, got)
			}
			if _, _, err := decoder.Decode(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: after the last event: %v", media, err)
			}
		}
	})
}

// Metadata alone is what upstream returns: that of the hub version.
func TestPartialObjects(t *testing.T) {
	eachSample(t, func(t *testing.T, s sample) {
		hub, err := s.served.DecodeHub(s.object)
		if err != nil {
			t.Fatal(err)
		}
		m, err := meta.Accessor(hub)
		if err != nil {
			t.Fatal(err)
		}
		partial := meta.AsPartialObjectMetadata(m)
		partial.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"))
		list := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{ResourceVersion: "5"}, Items: []metav1.PartialObjectMetadata{*partial}}
		list.SetGroupVersionKind(metav1.SchemeGroupVersion.WithKind("PartialObjectMetadataList"))
		for media, oracle := range s.serializers() {
			var want, wantList, gotList bytes.Buffer
			if err := errors.Join(oracle.Encode(partial, &want), oracle.Encode(list, &wantList)); err != nil {
				t.Fatal(err)
			}
			f := codec.Format{Media: media, As: codec.AsPartial, AsVersion: "v1"}
			got, err := codec.NewRenderer(s.served, f).Object(s.object)
			if err != nil {
				t.Fatal(err)
			}
			f.AsList = true
			made, err := codec.NewRenderer(s.served, f).List([]*resources.Object{s.object}, list.ListMeta)
			if err != nil {
				t.Fatal(err)
			}
			if err := made.Write(&gotList); err != nil {
				t.Fatal(err)
			}
			if d := diff(t, media, want.Bytes(), got); d != "" {
				t.Errorf("%s (-want +got):\n%s", media, d)
			}
			if d := diff(t, media, wantList.Bytes(), gotList.Bytes()); d != "" {
				t.Errorf("%s list (-want +got):\n%s", media, d)
			}
		}
	})
}

// largest records the largest piece that was written.
type largest struct{ piece, all int }

func (l *largest) Write(p []byte) (int, error) {
	l.piece, l.all = max(l.piece, len(p)), l.all+len(p)
	return len(p), nil
}

// A YAML list is written object by object, or as a whole while the fast path is off.
func TestYAMLListsAreStreamed(t *testing.T) {
	const objects = 50
	eachSample(t, func(t *testing.T, s sample) {
		many := make([]*resources.Object, objects)
		for i := range many {
			many[i] = s.object
		}
		for _, on := range []bool{true, false} {
			t.Cleanup(fastpath.Streaming.Turn(on))
			list, err := codec.NewRenderer(s.served, codec.Format{Media: codec.YAML}).List(many, metav1.ListMeta{})
			if err != nil {
				t.Fatal(err)
			}
			var l largest
			if err := list.Write(&l); err != nil || on != (l.all >= objects*l.piece) {
				t.Errorf("on: %t: %d bytes with a piece of %d: %v", on, l.all, l.piece, err)
			}
		}
	})
}
