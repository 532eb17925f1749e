package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rowlock/rowlock/e2e/checker/history"
)

// label is the label whose value is the color.
const label = "color"

// wire has the parsed fields of an object, a list, a Status or a bookmark.
type wire struct {
	Kind     string `json:"kind"`
	Code     int    `json:"code"`
	Reason   string `json:"reason"`
	Metadata struct {
		Name            string            `json:"name"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		Continue        string            `json:"continue"`
		Remaining       *int64            `json:"remainingItemCount"`
	} `json:"metadata"`
	Details struct {
		UID string `json:"uid"`
	} `json:"details"`
	Data  map[string]string `json:"data"`
	Items []wire            `json:"items"`
}

// errBody means that a server sent an invalid answer. That is no fault of the network: those cut an answer short.
var errBody = errors.New("not an answer of the API")

// errNotSent means that there was no connection for a request: it has not happened.
var errNotSent = errors.New("no connection")

func (w *wire) revision() (int64, error) {
	revision, err := strconv.ParseInt(w.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: resourceVersion: %w", errBody, err)
	}
	return revision, nil
}

func (w *wire) object() (history.Object, error) {
	revision, err := w.revision()
	return history.Object{Name: w.Metadata.Name, UID: w.Metadata.UID, Revision: revision, Value: w.Data["v"], Color: w.Metadata.Labels[label]}, err
}

// path is that of the namespace's ConfigMaps, or of one.
func (r *recorder) path(name string, query url.Values) string {
	path := "/api/v1/namespaces/" + r.namespace + "/configmaps"
	if name != "" {
		path += "/" + name
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// send sends a request. body is JSON of the content type, or nil.
func send(ctx context.Context, target Target, method, path, contentType string, body any) (*http.Response, error) {
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		reader = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(ctx, method, target.URL+path, reader)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", contentType)
	}
	return target.Client.Do(request)
}

// ask sends a request and reads the answer. The code is 0 without a complete answer.
func (r *recorder) ask(ctx context.Context, target Target, method, path, contentType string, body any) (*wire, int, error) {
	ctx, cancel := r.within(ctx)
	defer cancel()
	response, err := send(ctx, target, method, path, contentType, body)
	if dial := (*net.OpError)(nil); errors.As(err, &dial) && dial.Op == "dial" {
		return nil, 0, errNotSent
	}
	if err != nil {
		return nil, 0, nil //nolint:nilerr // the record says that there was no answer
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, 0, nil //nolint:nilerr // as before
	}
	answer := &wire{}
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, 0, fmt.Errorf("%w: %s %s: %d: %w: %.200q", errBody, method, path, response.StatusCode, err, text)
	}
	return answer, response.StatusCode, nil
}
