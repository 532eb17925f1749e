package aggregate_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"testing"
)

// A caBundle without certificates is refused with client-go's words for what is wrong with it, as by kube-apiserver.
func TestUnusableBundles(t *testing.T) {
	f := newFixture(t)
	f.register()
	f.condition("Passed")
	for want, bundle := range map[string][]byte{
		"unable to parse bytes as PEM block":                       []byte("none"),
		"no valid certificate authority data seen":                 pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("key")}),
		"failed to parse certificate: x509: malformed certificate": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("none")}),
	} {
		f.must("PATCH", apiServices+"/v1.apples.example.com", fmt.Sprintf(`{"spec":{"caBundle":%q}}`, base64.StdEncoding.EncodeToString(bundle)),
			"Content-Type", "application/merge-patch+json")
		want = "unable to load root certificates: " + want + "\n"
		if code, answer := f.send("GET", apples, ""); code != http.StatusInternalServerError || answer != want {
			t.Errorf("%d %q, want %q", code, answer, want)
		}
	}
}
