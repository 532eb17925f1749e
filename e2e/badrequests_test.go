package e2e

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// badRequest is one case of testdata/badrequests.yaml.
type badRequest struct {
	Name    string            `json:"name"`
	Request string            `json:"request"` // method and path
	Headers map[string]string `json:"headers"`
	Body    *string           `json:"body"`

	Code    int            `json:"code"`
	Reason  string         `json:"reason"`
	Message string         `json:"message"`
	Details map[string]any `json:"details"`
	Text    string         `json:"text"` // of an answer other than a Status
}

// TestBadRequests sends requests that must be refused and compares the whole Status.
func TestBadRequests(t *testing.T) {
	namespace := newNamespace(t)
	there, err := shared.client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "there"}, Data: map[string]string{"a": "b"},
	}, metav1.CreateOptions{FieldManager: "unknown"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/badrequests.yaml")
	if err != nil {
		t.Fatal(err)
	}
	places := strings.NewReplacer("NAMESPACE", namespace, "THERES_REVISION", there.ResourceVersion, "THERES_UID", string(there.UID))
	var cases []badRequest
	if err := yaml.UnmarshalStrict([]byte(places.Replace(string(text))), &cases); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(shared.config)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.check(t, client) })
	}
}

func (c badRequest) check(t *testing.T, client *http.Client) {
	method, path, _ := strings.Cut(c.Request, " ")
	var body io.Reader
	headers := map[string]string{}
	if c.Body != nil {
		body = strings.NewReader(expand(*c.Body))
		headers["Content-Type"] = "application/json"
	}
	maps.Copy(headers, c.Headers)
	q, err := http.NewRequestWithContext(t.Context(), method, shared.config.Host+expand(path), body)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range headers {
		q.Header.Set(name, value)
	}
	response, err := client.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != c.Code {
		t.Errorf("%s, want %d", response.Status, c.Code)
	}
	if c.Text != "" {
		if string(text) != c.Text {
			t.Errorf("%q, want %q", text, c.Text)
		}
		return
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatalf("not JSON: %v\n%s", err, text)
	}
	if diff := cmp.Diff(c.status(), got); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
}

// status is the Status that the case expects, as decoded JSON.
func (c badRequest) status() map[string]any {
	status := map[string]any{
		"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"code": float64(c.Code), "message": expand(c.Message),
	}
	if c.Reason != "" {
		status["reason"] = c.Reason
	}
	if c.Details != nil {
		text, _ := json.Marshal(c.Details) // it came from JSON
		var details map[string]any
		_ = json.Unmarshal([]byte(expand(string(bytes.TrimSpace(text)))), &details)
		status["details"] = details
	}
	return status
}

var repeated = regexp.MustCompile(`REPEAT (.+?) (\d+) TIMES`)

// expand expands text that is too long for the file.
func expand(text string) string {
	return repeated.ReplaceAllStringFunc(text, func(match string) string {
		parts := repeated.FindStringSubmatch(match)
		n, _ := strconv.Atoi(parts[2]) // digits, by the pattern
		return strings.Repeat(parts[1], n)
	})
}
