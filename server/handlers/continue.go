package handlers

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
)

// continueToken says where a list goes on. Clients treat it as opaque; its form is that of kube-apiserver, so that a list
// begun there can end here.
type continueToken struct {
	APIVersion string `json:"v"`
	// Revision is that of the first page; negative: the most recent one, for a list that outlived its history.
	Revision int64 `json:"rv"`
	// Start is the first path of the page below the range of the list, behind a slash.
	Start string `json:"start"`
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
func encodeContinue(last, namespace string, revision int64) string {
	return continueToken{APIVersion: tokenVersion, Revision: revision, Start: "/" + trimNamespace(last, namespace) + "\x00"}.String()
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
// least path greater than it.
func (t *continueToken) after(namespace string) string {
	start := strings.TrimSuffix(t.Start, "\x00")
	if namespace == "" {
		return start
	}
	return namespace + "/" + start
}
