package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/rowlock/rowlock/server/openapi"
)

// failure is the error of a failed request to a server, and until when the server is not asked again.
type failure struct {
	err   error
	until time.Time
}

// askPause is how long a server is not asked again after a failed request for a document.
const askPause = 2 * time.Second

// describing is the user of requests for OpenAPI documents, as in upstream.
var describing user.Info = &user.DefaultInfo{Name: "system:aggregator"}

const (
	pathV2 = "/openapi/v2"
	pathV3 = "/openapi/v3"
)

// errUnavailable says that the status of an APIService is unavailable.
var errUnavailable = errors.New(unavailable)

// description holds the OpenAPI documents of an APIService's server for one version; if it does not answer, these are its last
// ones. The method read may be called concurrently, also with refresh, which has one caller.
type description struct {
	a  *Aggregator
	gv schema.GroupVersion

	v2    *openapi.Part
	v2Tag string // the ETag of the document that v2 is part of

	// asking is held during a request for a document of version 3. failed has the error of the last request, and until when
	// the server is not asked again, so that requests that waited meanwhile do not repeat it.
	asking chan struct{}
	failed failure
	// mu guards the rest.
	mu   sync.Mutex
	v3   map[string]string // the hashes of documents of version 3, by name
	kept map[string]keptDocument
}

// keptDocument is a document of version 3, with its hash in the index when it was read.
type keptDocument struct {
	hash string
	*openapi.Document
}

// newDescription returns an empty description.
func (a *Aggregator) newDescription(gv schema.GroupVersion) *description {
	return &description{a: a, gv: gv, kept: map[string]keptDocument{}, asking: make(chan struct{}, 1)}
}

// external returns the current state. Only the caller of refresh may call it.
func (d *description) external() openapi.ExternalVersion {
	d.mu.Lock()
	defer d.mu.Unlock()
	return openapi.ExternalVersion{GroupVersion: d.gv, V2: d.v2, V3: d.v3, Read: d.read}
}

// refresh polls the server. Documents that it does not return stay as they were.
func (d *description) refresh(ctx context.Context) error {
	b, err := d.a.Find(ctx, d.gv)
	switch {
	case err != nil:
		return err
	case b == nil || b.transportErr != nil:
		return nil // the availability of the APIService reports this
	}
	return errors.Join(d.refreshV2(ctx, b), d.refreshIndex(ctx, b)) // a server may have only one of the two
}

func (d *description) refreshIndex(ctx context.Context, b *Backend) error {
	code, _, body, err := b.read(ctx, pathV3, describing, forDescriptions, "Accept", "application/json")
	switch {
	case err != nil:
		return err
	case code == http.StatusOK:
		return d.refreshV3(body)
	case code == http.StatusNotFound:
		return d.convert()
	}
	return fmt.Errorf("%s is answered with %d", pathV3, code)
}

func (d *description) refreshV2(ctx context.Context, b *Backend) error {
	headers := []string{"Accept", "application/json"}
	if d.v2Tag != "" {
		headers = append(headers, "If-None-Match", d.v2Tag)
	}
	code, header, body, err := b.read(ctx, pathV2, describing, forDescriptions, headers...)
	switch {
	case err != nil:
		return err
	case code == http.StatusNotModified && d.v2Tag != "":
		return nil
	case code == http.StatusNotFound:
		d.v2, d.v2Tag = nil, ""
		return nil
	case code != http.StatusOK:
		return fmt.Errorf("%s is answered with %d", pathV2, code)
	}
	part, err := openapi.NewPart(body, d.gv)
	if err != nil {
		return fmt.Errorf("%s: %w", pathV2, err)
	}
	if d.v2 == nil || !d.v2.Equal(part) {
		d.v2 = part
	}
	d.v2Tag = header.Get("Etag")
	return nil
}

// refreshV3 reads an index. It ignores documents of other group versions than the APIService's.
func (d *description) refreshV3(index []byte) error {
	var all struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := json.Unmarshal(index, &all); err != nil {
		return fmt.Errorf("%s: %w", pathV3, err)
	}
	now := map[string]string{}
	for _, name := range []string{openapi.VersionName(d.gv), openapi.GroupName(d.gv)} {
		if entry, ok := all.Paths[name]; ok {
			at, err := url.Parse(entry.ServerRelativeURL)
			if err != nil {
				return fmt.Errorf("%s: %w", pathV3, err)
			}
			now[name] = at.Query().Get("hash")
		}
	}
	d.publish(now, nil)
	return nil
}

// publish sets the documents of version 3, and forgets cached documents that are no longer in the index.
func (d *description) publish(v3 map[string]string, made map[string]keptDocument) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !maps.Equal(d.v3, v3) {
		d.v3 = v3
	}
	maps.Copy(d.kept, made)
	maps.DeleteFunc(d.kept, func(name string, _ keptDocument) bool {
		_, ok := v3[name]
		return !ok
	})
}

// convert converts version 2 to version 3, for a server that has only version 2.
func (d *description) convert() error {
	if d.v2 == nil {
		d.publish(nil, nil)
		return nil
	}
	doc, err := d.v2.V3(time.Now())
	if err != nil {
		return err
	}
	name := openapi.VersionName(d.gv)
	d.publish(map[string]string{name: doc.ETag()}, map[string]keptDocument{name: {doc.ETag(), doc}})
	return nil
}

// read returns a document of version 3: the cached one if it has the hash that is in the index, otherwise the server's answer, or the
// cached one if the server does not answer.
func (d *description) read(ctx context.Context, name string) (*openapi.Document, error) {
	if doc := d.current(name); doc != nil {
		return doc, nil
	}
	select {
	case d.asking <- struct{}{}:
		defer func() { <-d.asking }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if doc := d.current(name); doc != nil {
		return doc, nil
	}
	doc, err := (*openapi.Document)(nil), d.failed.err
	if err == nil || !time.Now().Before(d.failed.until) {
		doc, err = d.ask(ctx, name)
		d.failed = failure{err, time.Now().Add(askPause)}
		if ctx.Err() != nil {
			d.failed = failure{} // the request was canceled, which says nothing about the server
		}
	}
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if last := d.kept[name].Document; last != nil {
			return last, nil
		}
	}
	return doc, err
}

// current returns the cached document with the hash that is in the index; nil: there is none.
func (d *description) current(name string) *openapi.Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if k := d.kept[name]; k.hash != "" && k.hash == d.v3[name] {
		return k.Document
	}
	return nil
}

// ask requests a document from the server, unless the server is known to be unavailable.
func (d *description) ask(ctx context.Context, name string) (*openapi.Document, error) {
	within := forDescriptions
	d.mu.Lock()
	hash, kept := d.v3[name], d.kept[name].Document != nil
	d.mu.Unlock()
	if until, ok := ctx.Deadline(); ok { // the client has to be there for the cached document, or the error, which others then get at once
		left := time.Until(until)
		if within.time = min(within.time, left-left/10); kept {
			within.time = min(within.time, left/2)
		}
	}
	b, err := d.a.Find(ctx, d.gv)
	if err != nil {
		return nil, err
	}
	if b == nil || !b.available || b.transportErr != nil {
		return nil, errUnavailable
	}
	code, header, body, err := b.read(ctx, pathV3+"/"+name, describing, within, "Accept", "application/json")
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("%s/%s is answered with %d", pathV3, name, code)
	}
	if err != nil {
		return nil, err
	}
	doc, err := openapi.NewDocument(body, strings.Trim(strings.TrimPrefix(header.Get("Etag"), "W/"), `"`), time.Now())
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.v3[name]; ok {
		d.kept[name] = keptDocument{hash, doc}
	}
	return doc, nil
}
