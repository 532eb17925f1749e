package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/controller"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig/metrics"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/health"
)

// encryptionOptions say how objects are encrypted in the database. The flags and the implementation are kube-apiserver's.
type encryptionOptions struct {
	file   string
	reload bool
	// of is a prefix of the flag for the objects of another server: "source-".
	of string
	// gated: plugins of KMS v1 need --feature-gates=KMSv1=true.
	gated bool
}

func (o *encryptionOptions) addFlags(flags *pflag.FlagSet) {
	o.gated = true
	o.addFileFlag(flags)
	flags.BoolVar(&o.reload, "encryption-provider-config-automatic-reload", false,
		"reload --encryption-provider-config within a minute after it changes")
}

// addFileFlag is for commands that end before the file would be read again.
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

// encryption has the transformers for the options.
type encryption struct {
	transformers value.ResourceTransformers // nil: nothing is encrypted
	checks       []health.Check
	// close ends the maintenance of the keys. It is called after the store was closed.
	close func()
}

// open reads the file. It starts the maintenance of the keys of KMS plugins, and reloads the file if it is to be read again. Both run as long as
// the store is open, which is longer than requests are accepted: they do not end with the context.
func (o *encryptionOptions) open(ctx context.Context) (e encryption, err error) {
	if o.file == "" {
		return encryption{close: func() {}}, nil
	}
	if !o.gated {
		upstream.AllowKMSv1() // the command reads or writes what a server does whose own gate allows it
	}
	id := resources.ServerID()
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
	metrics.RecordEncryptionConfigLastConfigInfo(id, c.EncryptionFileContentHash) // upstream's controller records it from the first change on
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

// hooks are kube-apiserver's post-start hooks for a file that is read again. Here open has begun to do so.
func (o *encryptionOptions) hooks() []string {
	if !o.reload {
		return nil
	}
	return []string{"start-encryption-provider-config-automatic-reload"}
}

// missing tells whether a KMS plugin does not answer.
func (e encryption) missing() bool {
	r := &http.Request{} // the checks take nothing but its context, and limit their time themselves
	return slices.ContainsFunc(e.checks, func(c health.Check) bool { return c.Run(r) != nil })
}

// keyShown matches a key in upstream's message about a provider. The message contains a whole key when an element of
// the file has two providers (k8s.io/apiserver/pkg/apis/apiserver/validation), as JSON: an escaped quote does not end
// it.
var keyShown = regexp.MustCompile(`("Secret":")(?:[^"\\]|\\.)*"`)

// hideKeys returns the error about the file without the keys that the file contains.
func hideKeys(err error) error {
	if text := err.Error(); keyShown.MatchString(text) {
		return errors.New(keyShown.ReplaceAllString(text, `${1}REDACTED"`))
	}
	return err
}

// healthCheck is part of /healthz and /readyz, but not of /livez, as in kube-apiserver: a restart would not help.
func healthCheck(c healthz.HealthChecker) health.Check {
	return health.Check{Name: c.Name(), Run: func(r *http.Request) error { return c.Check(r) }}
}
