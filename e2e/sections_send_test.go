package e2e

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/e2e/harness"
)

// sectionServer is a server to which cases are sent.
type sectionServer struct {
	name, url string
	reference bool // kube-apiserver
	client    *http.Client
	audit     *auditLog // nil: its audit is not compared
}

func newSectionServer(t *testing.T, server *harness.Server) *sectionServer {
	t.Helper()
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
	// The same user on both servers.
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = harness.PeerToken
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return &sectionServer{name: server.Name, url: config.Host, client: client}
}

func (s *sectionServer) createNamespace(t *testing.T, name string) {
	t.Helper()
	create := step{Send: "POST /api/v1/namespaces", Body: map[string]any{"metadata": map[string]any{"name": name}}}
	if a := s.send(t, create, nil); a.code != http.StatusCreated {
		t.Fatalf("create namespace %s: %d %s", name, a.code, a.text)
	}
}

// answer is an answer of a server.
type answer struct {
	code   int
	header http.Header
	text   []byte   // as JSON if it is YAML or protobuf
	events []string // of a watch
}

// sendUntil sends a step, repeatedly if its answer is awaited.
func (s *sectionServer) sendUntil(t *testing.T, q step, kept values) answer {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		a := s.send(t, q, kept)
		again := q.Await || q.Soon && s.reference
		if !again || len(q.check(a, kept)) == 0 || time.Now().After(deadline) {
			return a
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func (s *sectionServer) send(t *testing.T, q step, kept values) answer {
	t.Helper()
	method, path, _ := strings.Cut(kept.fill(q.Send), " ")
	headers := map[string]string{"User-Agent": "sections/1"}
	if q.Body != nil {
		headers["Content-Type"] = runtime.ContentTypeJSON
	}
	maps.Copy(headers, q.Headers)
	body, err := encodeBody(q.Body, headers["Content-Type"], kept)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, s.url+strings.ReplaceAll(path, " ", "%20"), body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, kept.fill(value))
	}
	response, err := s.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.Header.Get("Content-Encoding") == "gzip" { // the case requested it
		if response.Body, err = gzip.NewReader(response.Body); err != nil {
			t.Fatal(err)
		}
	}
	a := answer{code: response.StatusCode, header: response.Header}
	if q.Events != nil && a.code == http.StatusOK {
		read := readEvents
		if strings.HasPrefix(response.Header.Get("Content-Type"), runtime.ContentTypeProtobuf) {
			read = readFrames
		}
		a.events, err = read(response.Body, len(q.Events))
		a.text = []byte(strings.Join(a.events, "\n"))
	} else {
		a.text, err = decodeBody(response)
	}
	if err != nil {
		t.Fatalf("%s: %v", q.Send, err)
	}
	return a
}

// encodeBody encodes a body according to the Content-Type.
func encodeBody(body any, contentType string, kept values) (io.Reader, error) {
	if body == nil {
		return http.NoBody, nil
	}
	if text, ok := body.(string); ok {
		return strings.NewReader(kept.fill(text)), nil
	}
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	data = []byte(kept.fill(string(data)))
	if contentType == runtime.ContentTypeProtobuf {
		if data, err = jsonToProtobuf(data); err != nil {
			return nil, err
		}
	}
	return bytes.NewReader(data), nil
}

// readEvents reads n events, or to the end of a stream without expected events.
func readEvents(stream io.Reader, n int) ([]string, error) {
	events, decoder := []string{}, json.NewDecoder(stream)
	for n == 0 || len(events) < n {
		var event json.RawMessage
		switch err := decoder.Decode(&event); {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		events = append(events, string(event))
	}
	return events, nil
}

// readFrames is readEvents for a watch in protobuf, in which the length of each event precedes it.
func readFrames(stream io.Reader, n int) ([]string, error) {
	events := []string{}
	for n == 0 || len(events) < n {
		var size uint32
		switch err := binary.Read(stream, binary.BigEndian, &size); {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return nil, err
		}
		frame := make([]byte, size)
		if _, err := io.ReadFull(stream, frame); err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		var event metav1.WatchEvent
		if err := event.Unmarshal(frame); err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		object, err := protobufToJSON(event.Object.Raw)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", len(events), err)
		}
		events = append(events, fmt.Sprintf(`{"type":%q,"object":%s}`, event.Type, object))
	}
	return events, nil
}

func decodeBody(response *http.Response) ([]byte, error) {
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	media, parameters, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if parameters["stream"] != "" {
		return text, nil // frames
	}
	switch media {
	case runtime.ContentTypeYAML:
		return yaml.YAMLToJSON(text)
	case runtime.ContentTypeProtobuf:
		return protobufToJSON(text)
	}
	return text, nil
}

// sectionScheme has the types of the API, and those of meta.k8s.io.
var sectionScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			panic(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return scheme
}()

func jsonToProtobuf(data []byte) ([]byte, error) {
	var typ metav1.TypeMeta
	if err := json.Unmarshal(data, &typ); err != nil {
		return nil, err
	}
	object, err := sectionScheme.New(typ.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, object); err != nil {
		return nil, err
	}
	var envelope bytes.Buffer
	err = protobuf.NewSerializer(sectionScheme, sectionScheme).Encode(object, &envelope)
	return envelope.Bytes(), err
}

func protobufToJSON(data []byte) ([]byte, error) {
	object, _, err := protobuf.NewSerializer(sectionScheme, sectionScheme).Decode(data, nil, nil)
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}
