package server

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/features"

	"github.com/rowlock/rowlock/resources/requestctx"
)

// withImpersonation answers a request as the user in its Impersonate-* headers ("User impersonation" of the authentication page of the Kubernetes
// documentation), if the requester may impersonate that user.
func (s *Server) withImpersonation(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if !namesAnother(r.Header) {
			s.access.series().filters.impersonation.Observe(0) // no measurable time without these headers
			return next(c)
		}
		began := time.Now()
		constrained := s.Features.Enabled(features.ConstrainedImpersonation)
		wanted, err := impersonated(r.Header, constrained)
		if err != nil {
			noSniffing(c)
			return err
		}
		if wanted == nil {
			return next(c)
		}
		as, err := s.impersonate(r.Context(), wanted, constrained)
		if err != nil {
			noSniffing(c)
			return err
		}
		forget(r.Header)
		setContext(c, requestctx.WithUser(r.Context(), as))
		s.access.series().filters.impersonation.Observe(time.Since(began).Seconds())
		return next(c)
	}
}

// namesAnother is a cheap check whether impersonated may find a user.
func namesAnother(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "Impersonate-") {
			return true
		}
	}
	return false
}

// impersonated returns the user in the headers, unchanged, and nil if there is none. constrained selects kube-apiserver's filter: the error for a
// missing name differs between its two filters.
func impersonated(h http.Header, constrained bool) (*user.DefaultInfo, error) {
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
	if asked && !constrained {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %v without impersonating a user", references(u)))
	}
	if asked {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("requested %#v without impersonating a user name", u))
	}
	return nil, nil
}

// references lists the requested properties besides the name, as kube-apiserver's older filter does in its error.
func references(u *user.DefaultInfo) (all []corev1.ObjectReference) {
	for _, group := range u.Groups {
		all = append(all, corev1.ObjectReference{Kind: "Group", Name: group})
	}
	of := authenticationv1.SchemeGroupVersion.String()
	for _, key := range slices.Sorted(maps.Keys(u.Extra)) {
		for _, value := range u.Extra[key] {
			all = append(all, corev1.ObjectReference{Kind: "UserExtra", APIVersion: of, Name: value, FieldPath: key})
		}
	}
	if u.UID != "" {
		all = append(all, corev1.ObjectReference{Kind: "UID", APIVersion: of, Name: u.UID})
	}
	return all
}

// forget removes the Impersonate-* headers, which no later step may read.
func forget(h http.Header) {
	for name := range h {
		if slices.Contains(impersonating, name) || strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			h.Del(name)
		}
	}
}

var impersonating = []string{authenticationv1.ImpersonateUserHeader, authenticationv1.ImpersonateUIDHeader, authenticationv1.ImpersonateGroupHeader}
