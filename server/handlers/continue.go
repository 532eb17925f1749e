package handlers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"time"
)

// continueToken is the position at which a list continues. Clients treat it as opaque; its format is kube-apiserver's, so that a list begun there
// can end here.
type continueToken struct {
	APIVersion string `json:"v"`
	// Revision is that of the first page; negative: the most recent one, for a list that outlived its history.
	Revision int64 `json:"rv"`
	// Start is the first path of the page, relative to the range of the list, after a slash.
	Start string `json:"start"`
	beginning
}

// beginning is the time at which the first page of a list was requested.
type beginning struct {
	// Server is the server that answered; 0 if unknown, as in a token of kube-apiserver.
	Server uint32 `json:"server,omitempty"`
	// After is that server's uptime, in seconds. With the time of day, a list would age when a clock is set, or when another server with a
	// different clock answers the next page.
	After int64 `json:"after,omitempty"`
}

// listAge bounds the age of lists on a server.
type listAge struct {
	server  uint32
	started time.Time
	now     func() time.Time
	most    time.Duration // 0: there is no bound
}

func newListAge(most time.Duration, now func() time.Time) listAge {
	return listAge{server: max(1, rand.Uint32()), started: now(), now: now, most: most}
}

// begins returns the beginning of a list requested now.
func (a *listAge) begins() beginning {
	return beginning{a.server, int64(a.now().Sub(a.started) / time.Second)}
}

// over tells whether a list that began on this server has exceeded its age. Reads of history are bounded by pruning. This bound is for the revision
// of a store without writes, which stays the latest one; etcd's revision goes on, so that kube-apiserver compacts it. The token has whole seconds, the
// list may have begun up to one later.
func (a *listAge) over(t *continueToken) bool {
	return a.most > 0 && t != nil && t.Revision > 0 && t.Server == a.server && a.now().Sub(a.started)-time.Duration(t.After+1)*time.Second >= a.most
}

const tokenVersion = "meta.k8s.io/v1"

var errToken = errors.New("continue key is not valid")

func decodeContinue(s string) (*continueToken, error) {
	data, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errToken, err)
	}
	var t continueToken
	if err := json.Unmarshal(data, &t); err != nil {
		if typ, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && typ.Field == "" {
			// kube-apiserver's message names its own type.
			return nil, fmt.Errorf("%w: json: cannot unmarshal %s into Go value of type storage.continueToken", errToken, typ.Value)
		}
		return nil, fmt.Errorf("%w: %w", errToken, err)
	}
	switch {
	case t.APIVersion != tokenVersion:
		return nil, fmt.Errorf("%w: server does not recognize this encoded version %s", errToken, t.APIVersion)
	case t.Revision == 0:
		return nil, fmt.Errorf("%w: incorrect encoded start resourceVersion (version meta.k8s.io/v1)", errToken)
	case t.Start == "":
		return nil, fmt.Errorf("%w: encoded start key empty (version meta.k8s.io/v1)", errToken)
	}
	key := t.Start
	if !strings.HasPrefix(key, "/") {
		key = "/" + key
	}
	if path.Clean(key) != key {
		return nil, fmt.Errorf("%w: %s", errToken, t.Start)
	}
	t.Start = key[1:]
	return &t, nil
}

// encodeContinue returns the token of the page after an object.
func encodeContinue(last, namespace string, revision int64, began beginning) string {
	return continueToken{APIVersion: tokenVersion, Revision: revision, Start: "/" + trimNamespace(last, namespace) + "\x00", beginning: began}.String()
}

func (t continueToken) String() string {
	t.APIVersion = tokenVersion
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // cannot happen for a string and a number
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// after returns the path after which the page begins. A start is the path of the last object plus a zero byte, the least path greater than it. A
// token that a client made up may have the path of an object, which is then the first of the page: after returns a path just before it and greater
// than all earlier ones, since no name contains such bytes.
func (t *continueToken) after(namespace string) string {
	start, exclusive := strings.CutSuffix(t.Start, "\x00")
	if n := len(start); n > 0 && !exclusive && start[n-1] > 0 {
		start = start[:n-1] + string([]byte{start[n-1] - 1, 0xff})
	}
	if namespace == "" {
		return start
	}
	return namespace + "/" + start
}
