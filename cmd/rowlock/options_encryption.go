package main

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/server/health"
)

// encryptionOptions say how objects are encrypted in the database. The flags, and all that is behind them, are kube-apiserver's.
type encryptionOptions struct {
	file   string
	reload bool
	// of says whose objects these are, before the name of the flag: "source-", of another server.
	of string
}

func (o *encryptionOptions) addFlags(flags *pflag.FlagSet) {
	o.addFileFlag(flags)
	flags.BoolVar(&o.reload, "encryption-provider-config-automatic-reload", false,
		"reload --encryption-provider-config within a minute after it changes")
}

// addFileFlag is for commands that are over before a file would be read again.
func (o *encryptionOptions) addFileFlag(flags *pflag.FlagSet) {
	flags.StringVar(&o.file, "encryption-provider-config", "",
		"`file` with an EncryptionConfiguration: which resources are encrypted in the database, and with which keys (docs/encryption.md)")
}

func (o *encryptionOptions) complete() error {
	if o.reload && o.file == "" {
		return usagef("--encryption-provider-config-automatic-reload must be set with --encryption-provider-config")
	}
	return nil
}

// encryption is what the options come to.
type encryption struct {
	transformers value.ResourceTransformers // nil: nothing is encrypted
	checks       []health.Check
	// close ends what looks after the keys. It comes after the store was closed.
	close func()
}

// open reads the file, and begins to look after the keys of KMS plugins, and after the file where it is to be read again. That goes on for as long as
// the store is open, which is longer than requests are taken: it does not end with the context.
func (o *encryptionOptions) open(ctx context.Context) (e encryption, err error) {
	if o.file == "" {
		return encryption{close: func() {}}, nil
	}
	id := apiServerID()
	ctx, forget := context.WithCancel(context.WithoutCancel(ctx))
	within, closeTransformers := context.WithCancel(ctx)
	var following sync.WaitGroup
	e.close = func() {
		closeTransformers()
		forget()
		following.Wait()
	}
	defer func() {
		if err != nil {
			e.close()
		}
	}()
	c, err := encryptionconfig.LoadEncryptionConfig(within, o.file, o.reload, id)
	if err != nil {
		return e, fmt.Errorf("--%sencryption-provider-config: %w", o.of, hideKeys(err))
	}
	metrics.RecordEncryptionConfigLastConfigInfo(id, c.EncryptionFileContentHash) // upstream's controller does from the first change on
	if !o.reload {
		e.transformers = encryptionconfig.StaticTransformers(c.Transformers)
		for _, check := range c.HealthChecks {
			e.checks = append(e.checks, healthCheck(check))
		}
		return e, nil
	}
	if len(c.HealthChecks) != 1 {
		return e, fmt.Errorf("--encryption-provider-config: %d health checks instead of one", len(c.HealthChecks))
	}
	dynamic := encryptionconfig.NewDynamicTransformers(c.Transformers, c.HealthChecks[0], closeTransformers, c.KMSCloseGracePeriod)
	e.transformers, e.checks = dynamic, []health.Check{healthCheck(dynamic)}
	again := controller.NewDynamicEncryptionConfiguration("encryption-provider-config-automatic-reload-controller", o.file, dynamic,
		c.EncryptionFileContentHash, id)
	following.Go(func() { again.Run(ctx) })
	return e, nil
}

// keyShown is a key in what upstream says of a provider. It shows one whole where an element of the file has two
// (k8s.io/apiserver/pkg/apis/apiserver/validation), as JSON: a quote in it is no end of it.
var keyShown = regexp.MustCompile(`("Secret":")(?:[^"\\]|\\.)*"`)

// hideKeys returns what is wrong with the file without the keys that are in it.
func hideKeys(err error) error {
	if text := err.Error(); keyShown.MatchString(text) {
		return errors.New(keyShown.ReplaceAllString(text, `${1}REDACTED"`))
	}
	return err
}

// healthCheck is asked by /healthz and /readyz, and not by /livez, as with kube-apiserver: a restart would not help.
func healthCheck(c healthz.HealthChecker) health.Check {
	return health.Check{Name: c.Name(), Run: func(r *http.Request) error { return c.Check(r) }}
}

// apiServerID is how kube-apiserver calls itself in metrics, by the name of its machine: its hash of two strings, each after its length.
func apiServerID() string {
	hostname, _ := os.Hostname() // a machine without a name has an identity all the same
	var named []byte
	for _, part := range []string{hostname, "kube-apiserver"} {
		named = append(binary.BigEndian.AppendUint16(named, uint16(len(part))), part...)
	}
	hash := sha256.Sum256(named)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(hash[:16]))
}
