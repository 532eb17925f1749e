package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/rowlock/rowlock/e2e/harness"
)

// sectionServer is a server that cases are sent to.
type sectionServer struct {
	name, url string
	client    *http.Client
}

func newSectionServer(t *testing.T, server *harness.Server) *sectionServer {
	t.Helper()
	config, err := server.Config()
	if err != nil {
		t.Fatal(err)
	}
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

// answer is what came back.
type answer struct {
	code   int
	header http.Header
	text   []byte   // as JSON if it is YAML or protobuf
	events []string // of a watch
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
	a := answer{code: response.StatusCode, header: response.Header}
	if q.Events != nil && a.code == http.StatusOK {
		a.events, err = readEvents(response.Body, len(q.Events))
		a.text = []byte(strings.Join(a.events, "\n"))
	} else {
		a.text, err = decodeBody(response)
	}
	if err != nil {
		t.Fatalf("%s: %v", q.Send, err)
	}
	return a
}

// encodeBody writes a body as the Content-Type says.
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

// readEvents reads n events, or to the end of a stream of which nothing is expected.
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
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, metav1.AddMetaToScheme} {
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
