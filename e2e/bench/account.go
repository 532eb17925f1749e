package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/client-go/rest"
)

// accountName is the service account of --service-account, and its binding to the role cluster-admin.
const accountName = "rowlock-bench"

const (
	accountsPath = "/api/v1/namespaces/" + namespace + "/serviceaccounts"
	bindingsPath = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
)

// becomeAccount creates a service account that may do everything, and makes all later clients use its token. They then cost the server what a
// controller costs it, and not what an administrator with a certificate does.
func (b *bench) becomeAccount(ctx context.Context) error {
	for _, made := range []request{
		{path: accountsPath, body: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ServiceAccount","metadata":{"name":%q}}`, accountName)},
		{path: bindingsPath, body: fmt.Appendf(nil, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":%q},`+
			`"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"},`+
			`"subjects":[{"kind":"ServiceAccount","name":%q,"namespace":%q}]}`, accountName, accountName, namespace)},
	} {
		made.method = http.MethodPost
		if _, err := b.admin.do(ctx, made); err != nil && !isStatus(err, http.StatusConflict) {
			return fmt.Errorf("service account: %w", err)
		}
	}
	asked := request{method: http.MethodPost, path: accountsPath + "/" + accountName + "/token", keep: true,
		body: []byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{"expirationSeconds":86400}}`)}
	if _, err := b.admin.do(ctx, asked); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	var answer struct{ Status struct{ Token string } }
	if err := json.Unmarshal(b.admin.body.Bytes(), &answer); err != nil {
		return fmt.Errorf("token: %w", err)
	}
	if answer.Status.Token == "" {
		return errors.New("token: the answer has none")
	}
	config := rest.AnonymousClientConfig(b.config)
	config.BearerToken = answer.Status.Token
	b.hangUp()
	b.config, b.opened = config, nil
	return nil
}

// removeAccount deletes the objects outside of the namespace of the run, as the administrator.
func (b *bench) removeAccount(ctx context.Context) error {
	if !b.ServiceAccount {
		return nil
	}
	_, err := b.admin.do(ctx, request{method: http.MethodDelete, path: bindingsPath + "/" + accountName})
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}
