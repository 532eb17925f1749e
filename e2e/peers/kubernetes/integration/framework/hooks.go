package framework

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/keyutil"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/authorization"
	authorizationconversion "k8s.io/kubernetes/pkg/apis/authorization/v1"
	"k8s.io/kubernetes/pkg/controlplane"
	authorizationutil "k8s.io/kubernetes/pkg/registry/authorization/util"
	"k8s.io/kubernetes/pkg/serviceaccount"

	"github.com/rowlock/rowlock/e2e/peers/kubernetes/integration/server"
)

// hooks are the authenticator and the authorizer that a test puts into kube-apiserver's configuration. A server in another process asks them by webhooks.
type hooks struct {
	authenticator authenticator.Request
	authorizer    authorizer.Authorizer
	// resolver is one that delays requests of users who impersonate others. It is asked together with the authenticator, about such a request.
	resolver request.RequestInfoResolver
	// anonymous says that the test took its own client's token away, so that the authenticator is asked about that client.
	anonymous bool
}

// applyHooks lets a test modify a configuration, and gives the options what the test has changed in it. It stops the test if that is impossible.
func applyHooks(t testing.TB, dir string, opts *options.ServerRunOptions, modify func(*controlplane.Config)) hooks {
	t.Helper()
	if modify == nil {
		return hooks{}
	}
	const token = "loopback"
	config := &controlplane.Config{}
	generic := genericapiserver.NewConfig(legacyscheme.Codecs)
	generic.LoopbackClientConfig = &rest.Config{BearerToken: token}
	generic.Authentication = genericapiserver.AuthenticationInfo{APIAudiences: opts.Authentication.APIAudiences, Authenticator: servers{}}
	generic.Authorization = genericapiserver.AuthorizationInfo{Authorizer: servers{}}
	config.ControlPlane.Generic = generic
	if err := giveTokens(config, opts); err != nil {
		t.Fatal(err)
	}
	before, extra, own := *generic, config.ControlPlane.Extra, config.Extra
	modify(config)
	h := hooks{anonymous: generic.LoopbackClientConfig.BearerToken != token}
	if _, same := generic.Authentication.Authenticator.(servers); !same {
		h.authenticator = generic.Authentication.Authenticator
	}
	if _, same := generic.Authorization.Authorizer.(servers); !same {
		h.authorizer = generic.Authorization.Authorizer
	}
	opts.Authentication.APIAudiences = generic.Authentication.APIAudiences
	opts.Authentication.ServiceAccounts.MaxExpiration = config.ControlPlane.Extra.ServiceAccountMaxExpiration
	opts.Authentication.ServiceAccounts.ExtendExpiration = config.ControlPlane.Extra.ExtendExpiration
	extra.ServiceAccountMaxExpiration = config.ControlPlane.Extra.ServiceAccountMaxExpiration
	extra.ExtendExpiration = config.ControlPlane.Extra.ExtendExpiration
	after := *generic
	after.Authentication, after.Authorization = before.Authentication, before.Authorization
	if h.authenticator != nil && generic.RequestInfoResolver != before.RequestInfoResolver {
		h.resolver, after.RequestInfoResolver = generic.RequestInfoResolver, before.RequestInfoResolver
	}
	for _, changed := range slices.Concat(changes(before, after), changes(extra, config.ControlPlane.Extra), changes(own, config.Extra)) {
		t.Fatalf("ModifyServerConfig changes %s of the server within the process of the test", changed)
	}
	if err := h.serve(t, dir, opts); err != nil {
		t.Fatal(err)
	}
	return h
}

// giveTokens gives a configuration what tests read from it.
func giveTokens(config *controlplane.Config, opts *options.ServerRunOptions) error {
	key, err := keyutil.PrivateKeyFromFile(opts.ServiceAccountSigningKeyFile)
	if err != nil {
		return err
	}
	extra := &config.ControlPlane.Extra
	extra.StorageFactory = noStorage{}
	extra.ServiceAccountIssuer, err = serviceaccount.JWTTokenGenerator(opts.Authentication.ServiceAccounts.Issuers[0], key)
	extra.ServiceAccountMaxExpiration = opts.Authentication.ServiceAccounts.MaxExpiration
	extra.ExtendExpiration = opts.Authentication.ServiceAccounts.ExtendExpiration
	return err
}

// noStorage fails where a test wants to read from etcd.
type noStorage struct{ serverstorage.StorageFactory }

// NewConfig fails.
func (noStorage) NewConfig(schema.GroupResource, runtime.Object) (*storagebackend.ConfigForResource, error) {
	return nil, server.ErrNoEtcd
}

// changes returns the names of the fields that differ between two structs. Functions are the same if they have the same code.
func changes(before, after any) (names []string) {
	was, is := reflect.ValueOf(before), reflect.ValueOf(after)
	for i := range was.NumField() {
		a, b := was.Field(i), is.Field(i)
		var same bool
		if a.Kind() == reflect.Func {
			same = a.Pointer() == b.Pointer()
		} else {
			same = !a.CanInterface() || reflect.DeepEqual(a.Interface(), b.Interface())
		}
		if !same {
			names = append(names, was.Type().Field(i).Name)
		}
	}
	return names
}

// serve serves the webhooks, and names them in the options.
func (h hooks) serve(t testing.TB, dir string, opts *options.ServerRunOptions) error {
	mux := http.NewServeMux()
	var errs []error
	if h.authenticator != nil {
		mux.HandleFunc("/authenticate", h.authenticate)
		if opts.Authentication.WebHook.ConfigFile != "" {
			return errors.New("the test has a webhook of its own")
		}
		opts.Authentication.WebHook.ConfigFile = filepath.Join(dir, "authenticate.kubeconfig")
		opts.Authentication.WebHook.Version, opts.Authentication.WebHook.CacheTTL = "v1", 0
	}
	if h.authorizer != nil {
		mux.HandleFunc("/authorize", h.authorize)
		// The webhook is asked first. An authorizer that never asks that of the server replaces it.
		if h.asksServer() {
			opts.Authorization.Modes = append([]string{"Webhook"}, opts.Authorization.Modes...)
		} else {
			opts.Authorization.Modes = []string{"Webhook"}
		}
		opts.Authorization.WebhookConfigFile = filepath.Join(dir, "authorize.kubeconfig")
		opts.Authorization.WebhookVersion = "v1"
		opts.Authorization.WebhookCacheAuthorizedTTL, opts.Authorization.WebhookCacheUnauthorizedTTL = 0, 0
	}
	webhooks := httptest.NewServer(mux)
	t.Cleanup(webhooks.Close)
	for _, name := range []string{"authenticate", "authorize"} {
		config := clientcmdapi.NewConfig()
		config.Clusters["test"] = &clientcmdapi.Cluster{Server: webhooks.URL + "/" + name}
		config.AuthInfos["test"] = &clientcmdapi.AuthInfo{}
		config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
		config.CurrentContext = "test"
		errs = append(errs, clientcmd.WriteToFile(*config, filepath.Join(dir, name+".kubeconfig")))
	}
	return errors.Join(errs...)
}

// authenticate answers a TokenReview.
func (h hooks) authenticate(w http.ResponseWriter, r *http.Request) {
	var review authenticationv1.TokenReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	about := r.Clone(r.Context())
	about.Header = http.Header{"Authorization": {"Bearer " + review.Spec.Token}, authenticationv1.ImpersonateUserHeader: {"any"}}
	if h.resolver != nil {
		if _, err := h.resolver.NewRequestInfo(about); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
	}
	response, ok, err := h.authenticator.AuthenticateRequest(about)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok, Audiences: review.Spec.Audiences}
	if err != nil {
		review.Status.Error = err.Error()
	}
	if ok {
		u := response.User
		review.Status.User = authenticationv1.UserInfo{Username: u.GetName(), UID: u.GetUID(), Groups: u.GetGroups(), Extra: map[string]authenticationv1.ExtraValue{}}
		for key, values := range u.GetExtra() {
			review.Status.User.Extra[key] = values
		}
	}
	answer(w, review)
}

// authorize answers a SubjectAccessReview.
func (h hooks) authorize(w http.ResponseWriter, r *http.Request) {
	var review authorizationv1.SubjectAccessReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var spec authorization.SubjectAccessReviewSpec
	if err := authorizationconversion.Convert_v1_SubjectAccessReviewSpec_To_authorization_SubjectAccessReviewSpec(&review.Spec, &spec, nil); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	attributes := authorizationutil.AuthorizationAttributesFrom(spec)
	decision, reason, err := h.authorizer.Authorize(r.Context(), &attributes)
	review.Status = authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow,
		Denied:  decision == authorizer.DecisionDeny,
		Reason:  reason,
	}
	if err != nil {
		review.Status.EvaluationError = err.Error()
	}
	answer(w, review)
}

// asksServer says whether the authorizer asks that of the server about a user whom nobody knows.
func (h hooks) asksServer() (asked bool) {
	attributes := &authorizer.AttributesRecord{User: &user.DefaultInfo{Name: "nobody"}, Verb: "get", Path: "/"}
	_, _, _ = h.authorizer.Authorize(context.WithValue(context.Background(), servers{}, &asked), attributes)
	return asked
}

func answer(w http.ResponseWriter, review any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(review); err != nil {
		panic(fmt.Sprint("webhook: ", err))
	}
}

// servers stands for the server's own authenticator and authorizer, which decide where the webhook has no opinion.
type servers struct{}

// AuthenticateRequest has no opinion.
func (servers) AuthenticateRequest(*http.Request) (*authenticator.Response, bool, error) {
	return nil, false, nil
}

// Authorize has no opinion, and notes that it was asked.
func (servers) Authorize(ctx context.Context, _ authorizer.Attributes) (authorizer.Decision, string, error) {
	if asked, ok := ctx.Value(servers{}).(*bool); ok {
		*asked = true
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// ConditionsAwareAuthorize is Authorize.
func (s servers) ConditionsAwareAuthorize(ctx context.Context, a authorizer.Attributes) authorizer.ConditionsAwareDecision {
	return authorizer.ConditionsAwareDecisionFromParts(s.Authorize(ctx, a))
}

// EvaluateConditions evaluates none.
func (servers) EvaluateConditions(context.Context, authorizer.ConditionsAwareDecision, authorizer.ConditionsData) (authorizer.Decision, string, error) {
	return authorizer.DecisionDeny, "", authorizer.ErrorConditionEvaluationNotSupported
}

// clientConfig returns what StartTestServer returns: a client of a user who may do anything, or one that the test's own authenticator is asked about.
func (h hooks) clientConfig(config *rest.Config, dir string) *rest.Config {
	config.TLSClientConfig = rest.TLSClientConfig{CAFile: filepath.Join(dir, "apiserver.crt")}
	if h.anonymous {
		config.BearerToken = "any"
	}
	return config
}
