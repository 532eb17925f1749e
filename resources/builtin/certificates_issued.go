package builtin

import (
	"encoding/base64"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
)

// countIssued counts, as kube-apiserver does, the certificates issued for requests with an expirationSeconds, and whether the signer honored
// it, with a tolerance of five minutes and a twentieth.
func countIssued(before, now *resources.Object) {
	seconds := gjson.GetBytes(now.Data, "spec.expirationSeconds")
	issued := gjson.GetBytes(now.Data, "status.certificate").Str
	if !seconds.Exists() || issued == "" || gjson.GetBytes(before.Data, "status.certificate").Str != "" {
		return
	}
	signer := gjson.GetBytes(now.Data, "spec.signerName").Str
	if !strings.HasPrefix(signer, "kubernetes.io/") {
		signer = "other"
	}
	honored := false
	if pem, err := base64.StdEncoding.DecodeString(issued); err == nil {
		if all, err := cert.ParseCertsPEM(pem); err == nil {
			wanted := time.Duration(seconds.Int()) * time.Second
			off := (wanted - all[0].NotAfter.Sub(all[0].NotBefore)).Abs()
			honored = off < 5*time.Minute+wanted/20
		}
	}
	upstream.CountIssued(signer, honored)
}
