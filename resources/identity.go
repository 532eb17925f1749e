package resources

import (
	"crypto/sha256"
	"encoding/base32"
	"os"
	"strings"

	"golang.org/x/crypto/cryptobyte"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// ServerKind is the kind of server that the Lease of a server names, and that is part of the server's ID.
const ServerKind = "kube-apiserver"

// ServerID returns the ID of this server, as kube-apiserver has it: the name of its Lease, and in metrics, as a hash, the label
// apiserver_id_hash. It is empty where the feature APIServerIdentity is off.
func ServerID() string {
	if !utilfeature.DefaultFeatureGate.Enabled(features.APIServerIdentity) {
		return ""
	}
	host, _ := os.Hostname() // an empty name will do
	return serverID(host)
}

// serverID derives the ID of the server on a host.
func serverID(host string) string {
	b := cryptobyte.NewBuilder(nil)
	for _, part := range []string{host, ServerKind} {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(part)) })
	}
	hash := sha256.Sum256(b.BytesOrPanic())
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
}
