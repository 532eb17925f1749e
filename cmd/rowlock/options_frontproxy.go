package main

import (
	"crypto/x509"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/features"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"github.com/rowlock/rowlock/server/authn"
	"github.com/rowlock/rowlock/server/controlplane"
	"github.com/rowlock/rowlock/server/pki"
)

// frontProxyOptions configure front proxies, which send requests on behalf of users: this server is one for extension API servers, and
// other proxies may stand before this server. Extension API servers read the configuration from a ConfigMap.
type frontProxyOptions struct {
	certFile, keyFile, caFile                     string
	names, usernames, uids, groups, extraPrefixes []string
	// onlyNamed: only headers that are named are trusted, as in kube-apiserver. Otherwise the usual headers are trusted when none is named.
	onlyNamed bool
}

func (o *frontProxyOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.certFile, "proxy-client-cert-file", "",
		"`file` with the client certificate for aggregated API servers, instead of a generated one; reloaded when it changes")
	flags.StringVar(&o.keyFile, "proxy-client-key-file", "", "`file` with the key of --proxy-client-cert-file")
	flags.StringVar(&o.caFile, "requestheader-client-ca-file", "",
		"`file` with the certificate authorities of front proxies, whose headers name the user for this server and for aggregated API servers; it has to contain the authority of --proxy-client-cert-file; reloaded when it changes")
	flags.StringSliceVar(&o.names, "requestheader-allowed-names", nil,
		"common `name` of trusted client certificates of front proxies (default: all that --requestheader-client-ca-file has signed)")
	flags.StringSliceVar(&o.usernames, "requestheader-username-headers", nil, "`header` with the name of the user, instead of X-Remote-User; if one of these flags is given, only the named headers are trusted")
	flags.StringSliceVar(&o.uids, "requestheader-uid-headers", nil, "`header` with the UID of the user; aggregated API servers are told to trust X-Remote-Uid as well")
	flags.StringSliceVar(&o.groups, "requestheader-group-headers", nil, "`header` with the groups of the user, instead of X-Remote-Group")
	flags.StringSliceVar(&o.extraPrefixes, "requestheader-extra-headers-prefix", nil, "`prefix` of headers with extra attributes of the user, instead of X-Remote-Extra-")
}

func (o *frontProxyOptions) complete() error {
	switch {
	case o.certFile != "" && o.keyFile == "":
		return usagef("--proxy-client-cert-file needs --proxy-client-key-file")
	case o.certFile == "" && o.keyFile != "":
		return usagef("--proxy-client-key-file needs --proxy-client-cert-file")
	case o.certFile != "" && o.caFile == "" && !o.onlyNamed:
		return usagef("--proxy-client-cert-file needs --requestheader-client-ca-file: nobody would believe it")
	}
	if len(o.uids) > 0 && o.onlyNamed && !slices.ContainsFunc(o.uids, func(h string) bool { return strings.EqualFold(h, "X-Remote-Uid") }) {
		return usagef("--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation will not work")
	}
	for name, values := range map[string][]string{"allowed-names": o.names, "username-headers": o.usernames, "uid-headers": o.uids, "group-headers": o.groups,
		"extra-headers-prefix": o.extraPrefixes} {
		if slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }) {
			return usagef("empty value in \"requestheader-%s\"", name)
		}
	}
	return nil
}

// warn warns of a certificate that extension API servers cannot verify by what this server publishes.
func (o *frontProxyOptions) warn(logger *slog.Logger) {
	if o.certFile != "" && o.caFile == "" {
		logger.Warn("extension API servers are not told to trust --proxy-client-cert-file: that needs --requestheader-client-ca-file")
	}
}

// frontProxy returns the configuration that is published to extension API servers.
func (o *frontProxyOptions) frontProxy(certificates *pki.PKI) *controlplane.FrontProxy {
	f := &controlplane.FrontProxy{Authorities: certificates.ProxyAuthorities,
		UsernameHeaders: together("X-Remote-User", o.usernames), UIDHeaders: together("X-Remote-Uid", o.uids),
		GroupHeaders: together("X-Remote-Group", o.groups), ExtraPrefixes: together("X-Remote-Extra-", o.extraPrefixes)}
	switch {
	case o.caFile == "":
		f.Names = []string{pki.ProxyName}
	case len(o.names) == 0: // any name
	case o.certFile != "":
		f.Names = o.names
	default:
		f.Names = together(pki.ProxyName, o.names)
	}
	return f
}

// hooks are kube-apiserver's post-start hooks for a certificate in a file. This server reads its certificate earlier.
func (o *frontProxyOptions) hooks() []string {
	if o.certFile == "" {
		return nil
	}
	return []string{"aggregator-reload-proxy-client-cert"}
}

// believed returns the proxies that this server trusts; nil: none.
func (o *frontProxyOptions) believed(certificates *pki.PKI) (*authn.FrontProxies, error) {
	uid := utilfeature.DefaultFeatureGate.Enabled(features.RemoteRequestHeaderUID)
	_, distinct := certificates.FrontProxyCAs()
	switch {
	case !uid && len(o.uids) > 0:
		return nil, usagef("--requestheader-uid-headers requires the %q feature to be enabled", features.RemoteRequestHeaderUID)
	case o.caFile == "":
		return nil, nil
	case len(o.names) == 0 && !distinct:
		return nil, usagef("--requestheader-client-ca-file has an authority that signs certificates of other clients; --requestheader-allowed-names must be " +
			"specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users")
	}
	cas := func() *x509.CertPool {
		pool, distinct := certificates.FrontProxyCAs()
		if len(o.names) == 0 && !distinct {
			return nil // a file has changed: no proxy is trusted, rather than every client
		}
		return pool
	}
	// A proxy that does not know a header forwards the header of its clients. With kube-apiserver's rule only named headers are
	// therefore trusted, and when none is named, those that every proxy knows, which excludes the UID's.
	f := &authn.FrontProxies{CAs: cas, Names: o.names, Users: o.usernames, Groups: o.groups, Extras: o.extraPrefixes}
	if uid {
		f.UIDs = o.uids
	}
	if !o.onlyNamed && len(o.usernames)+len(o.groups)+len(o.extraPrefixes) == 0 {
		f.Users, f.Groups, f.Extras = together("X-Remote-User", nil), together("X-Remote-Group", nil), together("X-Remote-Extra-", nil)
	}
	return f, nil
}

// together returns others with value appended, unless it is among them.
func together(value string, others []string) []string {
	if slices.ContainsFunc(others, func(o string) bool { return strings.EqualFold(o, value) }) {
		return others
	}
	return append(slices.Clone(others), value)
}
