package handlers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
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
	// Began is when the first page was asked for, in seconds since 1970; 0 when nobody knows, as of a token that kube-apiserver has
	// made.
	Began int64 `json:"began,omitempty"`
}

// older tells whether the list began more than age ago, as far as is known; no list does when age is 0. What is asked of
// history has pruned itself: this is for the revision of a store to which nobody writes, which stays the latest one, where
// the counter of etcd goes on and kube-apiserver has it compacted.
func (t *continueToken) older(age time.Duration, now time.Time) bool {
	return age > 0 && t != nil && t.Revision > 0 && t.Began > 0 && now.Sub(time.Unix(t.Began, 0)) > age
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
func encodeContinue(last, namespace string, revision, began int64) string {
	return continueToken{APIVersion: tokenVersion, Revision: revision, Start: "/" + trimNamespace(last, namespace) + "\x00", Began: began}.String()
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
