package server

import (
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// FuzzImpersonation parses impersonation headers: names are taken unchanged, other properties need a name, and the headers are removed afterwards.
func FuzzImpersonation(f *testing.F) {
	f.Add("Impersonate-User", "jane", "Impersonate-Group", "team")
	f.Add("impersonate-user", "", "Impersonate-Uid", "1")
	f.Add("Impersonate-Extra-Acme.com%2fscope", "view", "Impersonate-User", "system:serviceaccount:a:b")
	f.Add("Impersonate-Extra-%zz", "", "Impersonate-Extra-", "x")
	f.Fuzz(func(t *testing.T, name, value, other, more string) {
		h := http.Header{}
		h.Add(name, value)
		h.Add(other, more)
		u, err := impersonated(h, true)
		switch {
		case err != nil && !apierrors.IsBadRequest(err):
			t.Errorf("%q: %v", h, err)
		case u != nil && (u.Name == "" || u.Name != h.Get("Impersonate-User")):
			t.Errorf("%q: is %v", h, u)
		case u == nil && err == nil && h.Get("Impersonate-User") != "":
			t.Errorf("%q: is nobody", h)
		}
		forget(h)
		for left := range h {
			if strings.HasPrefix(left, "Impersonate-Extra-") || left == "Impersonate-User" || left == "Impersonate-Group" || left == "Impersonate-Uid" {
				t.Errorf("%q is left", left)
			}
		}
		if u, err := impersonated(h, true); u != nil || err != nil {
			t.Errorf("%q: is still %v, %v", h, u, err)
		}
	})
}
