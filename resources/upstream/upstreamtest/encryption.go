package upstreamtest

import (
	"testing"
	"time"
	_ "unsafe" // for go:linkname

	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
)

// leastPluginWait is how long the reload of an EncryptionConfiguration waits for its KMS plugins, if their timeouts allow no longer wait.
//
//go:linkname leastPluginWait k8s.io/apiserver/pkg/server/options/encryptionconfig/controller.minKMSPluginCloseGracePeriod
var leastPluginWait time.Duration

// HurryEncryption makes servers look at an EncryptionConfiguration often, and reject a KMS plugin that does not answer soon, until a test ends. It
// is called before a server starts.
func HurryEncryption(t testing.TB) {
	t.Helper()
	poll, wait := controller.EncryptionConfigFileChangePollDuration, leastPluginWait
	controller.EncryptionConfigFileChangePollDuration, leastPluginWait = 10*time.Millisecond, 10*time.Millisecond
	t.Cleanup(func() { controller.EncryptionConfigFileChangePollDuration, leastPluginWait = poll, wait })
}
