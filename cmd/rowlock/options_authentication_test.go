package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// The --oidc-* flags make the issuer that kube-apiserver makes of them (ToAuthenticationConfig in pkg/kubeapiserver/options).
func TestIssuerOfFlags(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, []byte("PEM"), 0o600); err != nil {
		t.Fatal(err)
	}
	const issuer = "https://issuer.example.com"
	username := func(claim, prefix string) apiserver.ClaimMappings {
		return apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}}
	}
	groups := func(m apiserver.ClaimMappings, claim, prefix string) apiserver.ClaimMappings {
		m.Groups = apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}
		return m
	}
	of := apiserver.Issuer{URL: issuer, Audiences: []string{"id"}}
	for args, want := range map[string]apiserver.JWTAuthenticator{
		"":                                {Issuer: of, ClaimMappings: username("sub", issuer+"#")},
		"--oidc-username-claim name":      {Issuer: of, ClaimMappings: username("name", issuer+"#")},
		"--oidc-username-claim email":     {Issuer: of, ClaimMappings: username("email", "")},
		"--oidc-username-prefix -":        {Issuer: of, ClaimMappings: username("sub", "")},
		"--oidc-username-prefix oidc:":    {Issuer: of, ClaimMappings: username("sub", "oidc:")},
		"--oidc-groups-prefix unused":     {Issuer: of, ClaimMappings: username("sub", issuer+"#")},
		"--oidc-groups-claim roles":       {Issuer: of, ClaimMappings: groups(username("sub", issuer+"#"), "roles", "")},
		"--oidc-signing-algs RS512,ES256": {Issuer: of, ClaimMappings: username("sub", issuer+"#")},
		"--oidc-username-claim email --oidc-username-prefix mail: --oidc-groups-claim roles --oidc-groups-prefix oidc:": {Issuer: of,
			ClaimMappings: groups(username("email", "mail:"), "roles", "oidc:")},
		"--oidc-ca-file " + ca: {Issuer: apiserver.Issuer{URL: issuer, Audiences: []string{"id"}, CertificateAuthority: "PEM"}, ClaimMappings: username("sub", issuer+"#")},
		"--oidc-required-claim hd=example.com --oidc-required-claim tier=a=b,c": {Issuer: of, ClaimMappings: username("sub", issuer+"#"),
			ClaimValidationRules: []apiserver.ClaimValidationRule{{Claim: "hd", RequiredValue: "example.com"}, {Claim: "tier", RequiredValue: "a=b,c"}}},
	} {
		o, flags := serveFlags(t)
		if err := flags.Parse(append(strings.Fields(args), "--oidc-issuer-url", issuer, "--oidc-client-id", "id")); err != nil {
			t.Fatal(err)
		}
		if err := o.authentication.complete(); err != nil {
			t.Fatalf("%s: %v", args, err)
		}
		slices.SortFunc(o.authentication.JWT.ClaimValidationRules, func(a, b apiserver.ClaimValidationRule) int { return cmp.Compare(a.Claim, b.Claim) })
		if diff := gocmp.Diff(&want, o.authentication.JWT); diff != "" {
			t.Errorf("%s (-want +got):\n%s", args, diff)
		}
		algorithms := "RS256"
		if _, given, ok := strings.Cut(args, "algs "); ok {
			algorithms = given
		}
		if got := strings.Join(o.authentication.SigningAlgorithms, ","); got != algorithms {
			t.Errorf("%s: the algorithms are %s", args, got)
		}
	}
}

// Flags of an issuer that cannot be used are usage errors.
func TestRefusedFlagsOfIssuer(t *testing.T) {
	for args, want := range map[string]string{
		"--oidc-issuer-url https://a": "must be specified together",
		"--oidc-client-id a":          "must be specified together",
		"--oidc-groups-claim a":       "must be specified together",
		"--oidc-issuer-url https://a --oidc-client-id a --authentication-config x":     "mutually exclusive",
		"--oidc-issuer-url https://a --oidc-client-id a --oidc-ca-file /nonexistent/x": "--oidc-ca-file",
	} {
		o, flags := serveFlags(t)
		if err := flags.Parse(strings.Fields(args)); err != nil {
			t.Fatal(err)
		}
		if err := o.authentication.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", args, err)
		}
	}
	if _, flags := serveFlags(t); flags.Parse([]string{"--oidc-required-claim", "a"}) == nil {
		t.Error("a required claim without a value is taken")
	}
}

// A server that is started with all --oidc-* flags maps names and groups, and refuses tokens without the required claim.
func TestIssuerOfRunningServer(t *testing.T) {
	oidc := newProvider(t)
	p := start(t, "--data-dir", t.TempDir(), "--oidc-issuer-url", oidc.URL, "--oidc-client-id", "rowlock", "--oidc-ca-file", oidc.authority(t), "--oidc-signing-algs", "ES256",
		"--oidc-username-claim", "name", "--oidc-username-prefix", "oidc:", "--oidc-groups-claim", "roles", "--oidc-groups-prefix", "role:", "--oidc-required-claim", "hd=example.com")
	review := func(claims map[string]any) authenticationv1.TokenReviewStatus {
		t.Helper()
		answer, err := p.client(t).AuthenticationV1().TokenReviews().Create(t.Context(), reviewOf(oidc.token(t, claims)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status
	}
	jane := map[string]any{"sub": "1", "name": "jane", "roles": []string{"a", "b"}, "hd": "example.com"}
	status := review(jane)
	for strings.Contains(status.Error, "authenticator not initialized") { // the issuer is discovered in the background
		status = review(jane)
	}
	if who := status.User; !status.Authenticated || who.Username != "oidc:jane" || !slices.Equal(who.Groups, []string{"role:a", "role:b", "system:authenticated"}) {
		t.Errorf("is %+v", status)
	}
	for _, claims := range []map[string]any{{"name": "jane"}, {"name": "jane", "hd": "example.org"}, {"sub": "jane", "hd": "example.com"}, {"name": "jane", "hd": "example.com", "aud": "other"}} {
		if status := review(claims); status.Authenticated {
			t.Errorf("%v: is %+v", claims, status)
		}
	}
}
