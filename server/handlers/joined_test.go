package handlers_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/tidwall/gjson"
)

// ask sends a request and returns the response.
func (a *api) ask(method, path, accept, encoding, body string) *httptest.ResponseRecorder {
	a.Helper()
	q := httptest.NewRequestWithContext(a.Context(), method, path, strings.NewReader(body))
	q.Header.Set("Accept", accept)
	if encoding != "" {
		q.Header.Set("Accept-Encoding", encoding)
	}
	if method == http.MethodPatch {
		q.Header.Set("Content-Type", "application/merge-patch+json")
	}
	w := httptest.NewRecorder()
	a.ServeHTTP(w, q)
	return w
}

// unzip decompresses a gzip stream, which must have one member and nothing after it.
func unzip(t testing.TB, stream []byte) []byte {
	t.Helper()
	from := bytes.NewReader(stream)
	r, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	r.Multistream(false)
	plain, err := io.ReadAll(r)
	if err != nil || from.Len() > 0 {
		t.Fatalf("%d bytes, %d of %d bytes are left: %v", len(plain), from.Len(), len(stream), err)
	}
	return plain
}

var listTypes = []string{"application/json", "application/vnd.kubernetes.protobuf", "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}

// A compressed list equals, byte for byte, the plain list of the same revision, while objects are added, changed and deleted, and other lists share
// its runs.
func TestCompressedLists(t *testing.T) {
	a := newAPI(t)
	value := strings.Repeat("some text that compresses well ", 130)
	for i := range 200 {
		a.put(fmt.Sprint("c", i), value)
	}
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	for n := range 2 {
		writers.Go(func() {
			random := rand.New(rand.NewPCG(uint64(n), 1))
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprint("c", random.IntN(220))
				switch random.IntN(3) {
				case 0:
					a.ask("DELETE", configMaps+"/"+name, "application/json", "", "")
				case 1:
					a.put(name, fmt.Sprint(value, i))
				case 2:
					a.ask("PATCH", configMaps+"/"+name, "application/json", "", fmt.Sprintf(`{"data":{"a":"%s %d"}}`, value, i))
				}
			}
		})
	}
	for n := range 3 {
		readers.Go(func() {
			for i := range 40 {
				selector := []string{"", "labelSelector=even%3Dtrue", "limit=150"}[(i+n)%3]
				a.compare(listTypes[i%len(listTypes)], selector)
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
}

func (a *api) put(name, value string) {
	a.Helper()
	w := a.ask("POST", configMaps, "application/json", "", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"even":"%t"},"annotations":{"note":%q}},"data":{"a":%q}}`, name, len(name)%2 == 0, value, value))
	if w.Code != http.StatusCreated && w.Code != http.StatusConflict {
		a.Errorf("%d: %s", w.Code, w.Body)
	}
}

// compare reads a compressed list, and the plain list of the same revision.
func (a *api) compare(accept, query string) {
	a.Helper()
	zipped := a.ask("GET", configMaps+"?"+query, accept, "gzip", "")
	if zipped.Code != 200 || zipped.Header().Get("Content-Encoding") != "gzip" {
		a.Errorf("%d, %v", zipped.Code, zipped.Header())
		return
	}
	got := unzip(a, zipped.Body.Bytes())
	again := configMaps + "?" + query + "&resourceVersionMatch=Exact&resourceVersion=" + revisionIn(got)
	want := a.ask("GET", again, accept, "", "")
	if want.Code != 200 {
		a.Errorf("%s: %d: %.300s", again, want.Code, want.Body)
		return
	}
	if !bytes.Equal(got, want.Body.Bytes()) {
		a.Errorf("%s of %s: %d bytes compressed, %d at the same revision", accept, query, len(got), want.Body.Len())
	}
}

// revisionIn returns the resourceVersion of a list in any format.
func revisionIn(list []byte) string {
	if rv := gjson.GetBytes(list, "metadata.resourceVersion").Str; rv != "" {
		return rv
	}
	// In a protobuf list: the bytes of the envelope, in it the metadata, in that field 2.
	_, rest, _ := bytes.Cut(list, []byte("ConfigMapList\x12"))
	_, rest, _ = bytes.Cut(rest, []byte{0x12})
	return string(rest[1 : 1+rest[0]])
}

// The compressed parts of a list keep no type alive that was replaced.
func TestCompressedListOfReplacedType(t *testing.T) {
	a := newAPI(t)
	a.serveToys(toyVersions...)
	note := strings.Repeat("some text that compresses well ", 130)
	for i := range 50 {
		a.run(exchange{do: "POST " + toys, body: fmt.Sprintf(
			`{"apiVersion":"toys.example.org/v1","kind":"Toy","metadata":{"name":"t%d","annotations":{"note":%q}},"spec":{"color":"red"}}`, i, note), code: 201})
	}
	typ, _ := a.registry.Catalog().Type("toys.toys.example.org")
	old := weak.Make(typ)
	if w := a.ask("GET", toys, "application/json", "gzip", ""); w.Header().Get("Content-Encoding") != "gzip" {
		t.Fatalf("the list is not compressed: %d, %v", w.Code, w.Header())
	}
	a.serveToys(toyVersions...)
	for began := time.Now(); old.Value() != nil; runtime.Gosched() {
		if time.Since(began) > patience {
			t.Fatal("the replaced type is kept")
		}
		runtime.GC()
	}
}

// As kube-apiserver does, Rowlock compresses bodies of more than 128 KiB, to the byte.
func TestCompressedFrom(t *testing.T) {
	a := newAPI(t)
	a.put("one", "")
	for _, accept := range listTypes[:2] {
		base := a.ask("GET", configMaps, accept, "", "").Body.Len()
		for size := 128<<10 - base - 20; size < 128<<10-base+4; size++ {
			w := a.ask("PATCH", configMaps+"/one", "application/json", "", fmt.Sprintf(`{"data":{"a":%q}}`, strings.Repeat("x", size)))
			if w.Code != 200 {
				t.Fatal(w.Body)
			}
			plain := a.ask("GET", configMaps, accept, "", "").Body
			zipped := a.ask("GET", configMaps, accept, "gzip, deflate", "")
			isZipped := zipped.Header().Get("Content-Encoding") == "gzip"
			if isZipped != (plain.Len() > 128<<10) {
				t.Errorf("%s of %d bytes: compressed %t", accept, plain.Len(), isZipped)
			}
			if got := zipped.Body.Bytes(); isZipped && !bytes.Equal(unzip(t, got), plain.Bytes()) || !isZipped && !bytes.Equal(got, plain.Bytes()) {
				t.Errorf("%s of %d bytes differs", accept, plain.Len())
			}
		}
		if w := a.ask("PATCH", configMaps+"/one", "application/json", "", `{"data":{"a":""}}`); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
}
