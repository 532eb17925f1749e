package main

import (
	"crypto/tls"
	"time"

	"github.com/spf13/pflag"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"

	"github.com/rowlock/rowlock/server/controlplane/controllers"
	"github.com/rowlock/rowlock/server/pki"
)

// signingOptions say which authorities sign CertificateSigningRequests. The flags are kube-controller-manager's.
type signingOptions struct {
	all      controllers.Authority
	of       map[string]*controllers.Authority // by signer
	duration time.Duration
}

// signerFlags are the signers with their names in flags, in the order of the flags.
var signerFlags = []struct{ flag, signer string }{
	{"kubelet-serving", certificatesv1.KubeletServingSignerName},
	{"kubelet-client", certificatesv1.KubeAPIServerClientKubeletSignerName},
	{"kube-apiserver-client", certificatesv1.KubeAPIServerClientSignerName},
	{"legacy-unknown", certificatesv1beta1.LegacyUnknownSignerName},
}

func (o *signingOptions) addFlags(flags *pflag.FlagSet) {
	add := func(a *controllers.Authority, name, what string) {
		flags.StringVar(&a.Certificate, name+"-cert-file", "", "`file` with the certificate of the authority for "+what)
		flags.StringVar(&a.Key, name+"-key-file", "", "`file` with the key of --"+name+"-cert-file")
	}
	add(&o.all, "cluster-signing", "CertificateSigningRequests, instead of the server's own; reloaded when it changes")
	o.of = map[string]*controllers.Authority{}
	for _, s := range signerFlags {
		o.of[s.signer] = &controllers.Authority{}
		add(o.of[s.signer], "cluster-signing-"+s.flag, "requests of "+s.signer+"; signers without an authority of their own then sign nothing")
	}
	flags.DurationVar(&o.duration, "cluster-signing-duration", 365*24*time.Hour,
		"how `long` signed certificates are valid, unless the request asks for less")
}

func (o *signingOptions) complete() error {
	given := false
	for _, s := range signerFlags {
		a := o.of[s.signer]
		given = given || *a != controllers.Authority{}
		if err := checkAuthority(a, "cluster-signing-"+s.flag); err != nil {
			return err
		}
	}
	if given && o.all != (controllers.Authority{}) {
		return usagef("cannot specify --cluster-signing-{cert,key}-file and other --cluster-signing-*-file flags at the same time")
	}
	return checkAuthority(&o.all, "cluster-signing")
}

func checkAuthority(a *controllers.Authority, name string) error {
	switch {
	case *a == controllers.Authority{}:
		return nil
	case a.Certificate == "":
		return usagef("--%s-key-file needs --%s-cert-file", name, name)
	case a.Key == "":
		return usagef("--%s-cert-file needs --%s-key-file", name, name)
	}
	if _, err := tls.LoadX509KeyPair(a.Certificate, a.Key); err != nil {
		return usagef("--%s-cert-file: %w", name, err)
	}
	return nil
}

// signing returns the authorities for the flags: one for each signer that was given one, or one for all, by default the server's own.
func (o *signingOptions) signing(certificates *pki.PKI) *controllers.Signing {
	s := &controllers.Signing{Authorities: map[string]controllers.Authority{}, Duration: o.duration}
	for signer, a := range o.of {
		if *a != (controllers.Authority{}) {
			s.Authorities[signer] = *a
		}
	}
	if len(s.Authorities) > 0 {
		return s
	}
	all := o.all
	if all == (controllers.Authority{}) {
		all.Certificate, all.Key = certificates.AuthorityFiles()
	}
	for _, known := range signerFlags {
		s.Authorities[known.signer] = all
	}
	return s
}
