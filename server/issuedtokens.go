package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"

	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/status"
)

// TokensPath is where users get tokens (rowlock token): POST creates one, GET lists them, and DELETE of the path with an ID revokes one. It is no
// resource, so that no role grants it by accident.
const TokensPath = "/rowlock/tokens"

// TokenRequest is the body of POST.
type TokenRequest struct {
	User   string   `json:"user"`
	Groups []string `json:"groups,omitempty"`
	// Seconds is the lifetime of the token.
	Seconds int64 `json:"seconds"`
	// AllowSystemMasters permits system:masters among the groups.
	AllowSystemMasters bool `json:"allowSystemMasters,omitempty"`
}

// TokenResponse is the response to POST. The token is not disclosed again.
type TokenResponse struct {
	authn.IssuedToken
	Token string `json:"token"`
}

// TokenList is the response to GET.
type TokenList struct {
	Items []authn.IssuedToken `json:"items"`
}

// mostTokenRequest bounds the body, in bytes.
const mostTokenRequest = 64 << 10

func (s *Server) serveTokens(c echo.Context) error {
	switch c.Request().Method {
	case http.MethodGet:
		all, err := s.IssuedTokens.List(c.Request().Context())
		if err != nil {
			return err
		}
		return c.JSON(http.StatusOK, TokenList{all})
	case http.MethodPost:
		return s.createToken(c)
	}
	return status.MethodNotAllowed()
}

func (s *Server) serveToken(c echo.Context) error {
	if c.Request().Method != http.MethodDelete {
		return status.MethodNotAllowed()
	}
	id := c.Param("id")
	err := s.IssuedTokens.Revoke(c.Request().Context(), id)
	if errors.Is(err, authn.ErrNoToken) {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "tokens"}, id)
	}
	if err != nil {
		return err
	}
	s.writeStatus(c, &metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess, Code: http.StatusOK})
	return nil
}

// createToken creates a token. A token acts as its user, so the requester needs the right to impersonate that user.
func (s *Server) createToken(c echo.Context) error {
	ctx := c.Request().Context()
	var asked TokenRequest
	body, err := readBody(c, mostTokenRequest)
	if errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if err == nil {
		err = json.Unmarshal(body, &asked)
	}
	if err != nil {
		return apierrors.NewBadRequest(fmt.Sprintf("the body is no request for a token: %v", err))
	}
	if err := authn.CheckSubject(asked.User, asked.Groups, asked.AllowSystemMasters); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	who, _ := genericapirequest.UserFrom(ctx)
	i := impersonation{Server: s, mode: legacyImpersonation, who: who}
	if err := i.name(ctx, &user.DefaultInfo{Name: asked.User}); err != nil {
		return err
	}
	if err := i.groups(ctx, asked.Groups); err != nil {
		return err
	}
	if asked.Seconds <= 0 || asked.Seconds > int64(authn.LongestToken/time.Second) {
		return apierrors.NewBadRequest(fmt.Sprintf("a token lives for at least a second, and at most %d", int64(authn.LongestToken/time.Second)))
	}
	made := TokenResponse{IssuedToken: authn.IssuedToken{User: asked.User, Groups: asked.Groups, By: who.GetName()}}
	if made.Token, err = s.IssuedTokens.Create(ctx, &made.IssuedToken, time.Duration(asked.Seconds)*time.Second); err != nil {
		return err
	}
	s.Logger.Info("made a token", "id", made.ID, "user", made.User, "groups", made.Groups, "expires", made.Expires, "by", made.By)
	return c.JSON(http.StatusCreated, made)
}
