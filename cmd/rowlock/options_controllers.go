package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/cert"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/auditing"
	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/pki"
)

// controllerOptions say which controllers run, and how. The flags are kube-controller-manager's.
type controllerOptions struct {
	list       []string
	rootCAFile string
	signing    signingOptions
	// unusedTokens is how long unused tokens stay in Secrets.
	unusedTokens time.Duration

	enabled []string
	// rootCA is the content of rootCAFile.
	rootCA []byte
}

func (o *controllerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.list, "controllers", []string{"*"},
		"controllers to run: `name` for one, -name to leave one out, * for all that are on by default. Names: "+
			strings.Join(controllers.Names(), ", ")+offByDefault())
	flags.StringVar(&o.rootCAFile, "root-ca-file", "",
		"`file` with the certificate authorities that Pods get to verify this server, instead of its own; read once")
	flags.DurationVar(&o.unusedTokens, "legacy-service-account-token-clean-up-period", 365*24*time.Hour,
		"how long generated ServiceAccount tokens in Secrets are kept when they are not used")
	o.signing.addFlags(flags)
}

func offByDefault() string {
	if off := controllers.OffByDefault(); len(off) > 0 {
		return "; on only with --enable-bootstrap-token-auth, or if named, are " + strings.Join(off, ", ")
	}
	return ""
}

// complete validates the flags. bootstrapTokens: the server accepts bootstrap tokens.
func (o *controllerOptions) complete(bootstrapTokens bool) (err error) {
	if o.enabled, err = controllers.Select(o.list, bootstrapTokens); err != nil {
		return usagef("--controllers: %v", err)
	}
	if o.unusedTokens <= 0 {
		return usagef("--legacy-service-account-token-clean-up-period must be positive")
	}
	if err := o.signing.complete(); err != nil {
		return err
	}
	if o.rootCAFile == "" {
		return nil
	}
	if o.rootCA, err = os.ReadFile(o.rootCAFile); err != nil {
		return fmt.Errorf("--root-ca-file: %w", err)
	}
	if _, err := cert.ParseCertsPEM(o.rootCA); err != nil {
		return usagef("--root-ca-file %s: %v", o.rootCAFile, err)
	}
	return nil
}

// config completes the configuration of the controllers.
func (o *controllerOptions) config(c controllers.Config, srv *server.Server, certificates *pki.PKI, keys *pki.TokenKeys) controllers.Config {
	upstream.SurvivePanics()
	c.Enabled = o.enabled
	c.ServiceAccounts = controllers.ServiceAccounts{Tokens: keys.Legacy(), CleanUpPeriod: o.unusedTokens}
	c.Client = func(who resources.Actor) (kubernetes.Interface, error) {
		return srv.Client(who.Info, auditing.ControllerAgent(who.GetName()))
	}
	c.Trust = &controllers.Trust{Bundle: certificates.Authority, Changed: certificates.Changed}
	c.Signing = o.signing.signing(certificates)
	if o.rootCA != nil {
		c.Trust.Bundle = func() []byte { return o.rootCA }
	}
	return c
}
