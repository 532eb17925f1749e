package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/features"

	"github.com/rowlock/rowlock/server/status"
)

// withImpersonation answers a request as the user that its Impersonate-* headers name ("User impersonation" of the
// authentication page of the Kubernetes documentation). Whoever may do everything may be anybody; an anonymous client may not.
func (s *Server) withImpersonation(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		wanted, err := impersonated(r.Header)
		if err != nil {
			noSniffing(c)
			return err
		}
		if wanted == nil {
			return next(c)
		}
		if who, _ := genericapirequest.UserFrom(r.Context()); isAnonymous(who) {
			return status.Unauthorized()
		}
		s.complete(wanted)
		forget(r.Header)
		c.SetRequest(r.WithContext(genericapirequest.WithUser(r.Context(), wanted)))
		return next(c)
	}
}

// impersonated returns the user that the headers name, word for word, and nil if they name none.
func impersonated(h http.Header) (*user.DefaultInfo, error) {
	u := &user.DefaultInfo{
		Name:   h.Get(authenticationv1.ImpersonateUserHeader),
		UID:    h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(h[authenticationv1.ImpersonateGroupHeader]),
	}
	asked := u.UID != "" || len(u.Groups) > 0
	for name, values := range h {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		asked = true
		key = strings.ToLower(key)
		if decoded, err := url.PathUnescape(key); err == nil {
			key = decoded
		}
		if u.Extra == nil {
			u.Extra = map[string][]string{}
		}
		u.Extra[key] = append(u.Extra[key], values...)
	}
	if u.Name != "" {
		return u, nil
	}
	if asked {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", u))
	}
	return nil, nil
}

// forget removes the headers that name the user, which no later step may read.
func forget(h http.Header) {
	for name := range h {
		if slices.Contains(impersonating, name) || strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			h.Del(name)
		}
	}
}

var impersonating = []string{authenticationv1.ImpersonateUserHeader, authenticationv1.ImpersonateUIDHeader, authenticationv1.ImpersonateGroupHeader}

// complete adds the groups that a user of that name is in whether the headers say so or not.
func (s *Server) complete(u *user.DefaultInfo) {
	if namespace, _, err := serviceaccount.SplitUsername(u.Name); err == nil && len(u.Groups) == 0 {
		u.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	if s.Features.Enabled(features.ConstrainedImpersonation) && isNode(u) {
		u.Groups = []string{user.NodesGroup}
	}
	all := user.AllAuthenticated
	if u.Name == user.Anonymous {
		all = user.AllUnauthenticated
	}
	if !slices.Contains(u.Groups, all) && !slices.Contains(u.Groups, user.AllUnauthenticated) {
		u.Groups = append(u.Groups, all)
	}
}

// isNode recognises who is a node by name alone (KEP-5284).
func isNode(u *user.DefaultInfo) bool {
	node, ok := strings.CutPrefix(u.Name, "system:node:")
	return ok && u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 && len(validation.NameIsDNSSubdomain(node, false)) == 0
}
