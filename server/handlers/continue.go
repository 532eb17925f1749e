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

// continueToken says where a list goes on. Clients treat it as opaque; its form is that of kube-apiserver, so that a list
// begun there can end here.
type continueToken struct {
	APIVersion string `json:"v"`
	// Revision is that of the first page; negative: the most recent one, for a list that outlived its history.
	Revision int64 `json:"rv"`
	// Start is the first path of the page below the range of the list, behind a slash.
	Start string `json:"start"`
	beginning
}

// beginning is when the first page of a list was asked for.
type beginning struct {
	// Server is the server that was asked; 0 when nobody knows, as of a token that kube-apiserver has made.
	Server uint32 `json:"server,omitempty"`
	// After is how long it had been running, in seconds. By the time of day, a list would become old when a clock is set, or when the next page is asked
	// of a server that has another time.
	After int64 `json:"after,omitempty"`
}

// listAge is how old lists get on a server.
type listAge struct {
	server  uint32
	started time.Time
	now     func() time.Time
	most    time.Duration // 0: there is no bound
}

func newListAge(most time.Duration, now func() time.Time) listAge {
	return listAge{server: max(1, rand.Uint32()), started: now(), now: now, most: most}
}

// begins is when a list begins that is asked for now.
func (a *listAge) begins() beginning {
	return beginning{a.server, int64(a.now().Sub(a.started) / time.Second)}
}

// over tells whether a list began longer ago than lists get old, as far as this server knows. What is asked of
// history has pruned itself: this is for the revision of a store to which nobody writes, which stays the latest one, where
// the counter of etcd goes on and kube-apiserver has it compacted.
func (a *listAge) over(t *continueToken) bool {
	return a.most > 0 && t != nil && t.Revision > 0 && t.Server == a.server && a.now().Sub(a.started)-time.Duration(t.After)*time.Second > a.most
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
			// kube-apiserver names its own type.
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

// encodeContinue is the token of the page after an object.
func encodeContinue(last, namespace string, revision int64, began beginning) string {
	return continueToken{APIVersion: tokenVersion, Revision: revision, Start: "/" + trimNamespace(last, namespace) + "\x00", beginning: began}.String()
}

func (t continueToken) String() string {
	t.APIVersion = tokenVersion
	data, err := json.Marshal(t)
	if err != nil {
		panic(err) // a string and a number always encode
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// after is the path after which the page begins. A start is the path of the last object with a zero byte appended, the
// least path greater than it. One that somebody has made by himself may be the path of an object, which is then the first
// of the page: it is made into a path just before, greater than all others that come before, since no name has such bytes.
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
