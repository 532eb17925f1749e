package main

import (
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/features"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/featuregate"

	"github.com/rowlock/rowlock/resources/behind"
	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/fastpath"
	"github.com/rowlock/rowlock/resources/upstream"
	"github.com/rowlock/rowlock/server/pki"
)

// serveOptions are the flags of rowlock serve. A flag with the same purpose as one of kube-apiserver has the same name.
type serveOptions struct {
	dataDir string
	listen  string
	storage storageOptions
	backups backupOptions
	history objectHistoryOptions
	views   bool

	encryption encryptionOptions

	tlsSANs      []string
	certFile     string
	keyFile      string
	clientCAFile string
	tokenFile    string

	controllers   controllerOptions
	services      serviceOptions
	authorization authorizationOptions
	tokens        tokenOptions
	proxies       frontProxyOptions
	kubelets      kubeletOptions

	authentication authenticationOptions

	routing         behind.Routing
	rejectRedirects bool

	featureGates  map[string]bool
	runtimeConfig cliflag.ConfigurationMap
	apis          builtin.RuntimeConfig

	allowPrivileged bool
	// connectionRate bounds each connection that is passed on to a node, a Pod or a Service, in bytes per second; 0: no bound.
	connectionRate int64
	fastPaths      []string

	admission admissionOptions
	audit     auditOptions
	metrics   metricsOptions

	flow flowOptions
	http httpOptions

	log logOptions

	// flags are all flags with their values, for /flagz; secret values are left out.
	flags map[string]string
}

func (o *serveOptions) sections() []section {
	authorization := flagSet(o.authorization.addFlags)
	o.authentication.anonymousFlag = authorization.Lookup("anonymous-auth")
	return []section{
		{"Storage", flagSet(o.addStorageFlags)},
		{"Backups", flagSet(o.backups.addFlags)},
		{"Object history", flagSet(o.history.addFlags)},
		{"Serving", flagSet(o.addServingFlags)},
		{"Services", flagSet(o.services.addFlags)},
		{"Clients", flagSet(o.addAccessFlags)},
		{"Front proxies", flagSet(o.proxies.addFlags)},
		{"Authorization", authorization},
		{"ServiceAccount tokens", flagSet(o.tokens.addFlags)},
		{"OpenID Connect, webhook and bootstrap tokens", flagSet(o.authentication.addFlags)},
		{"Admission", flagSet(o.admission.addFlags)},
		{"Overload", flagSet(o.flow.addFlags)},
		{"Audit", flagSet(o.audit.addFlags)},
		{"Metrics", flagSet(o.metrics.addFlags)},
		{"Connections", flagSet(o.http.addFlags)},
		{"Nodes", flagSet(o.kubelets.addFlags)},
		{"Controllers", flagSet(o.controllers.addFlags)},
		{"Features", flagSet(o.addFeatureFlags)},
		{"Logging", flagSet(o.log.addFlags)},
	}
}

func flagSet(add func(*pflag.FlagSet)) *pflag.FlagSet {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SortFlags = false
	add(flags)
	return flags
}

// classified marks a flag whose value must not be shown, as upstream's packages do.
const classified = "classified"

// shownFlags returns all flags with the values to show.
func shownFlags(flags *pflag.FlagSet) map[string]string {
	shown := map[string]string{}
	flags.VisitAll(func(f *pflag.Flag) {
		shown[f.Name] = f.Value.String()
		if len(f.Annotations[classified]) > 0 {
			shown[f.Name] = "CLASSIFIED"
		}
	})
	return shown
}

func (o *serveOptions) addStorageFlags(flags *pflag.FlagSet) {
	addConfigFlag(flags)
	addDataDirFlag(flags, &o.dataDir)
	o.storage.addFlags(flags)
	o.encryption.addFlags(flags)
	addViewsFlag(flags, &o.views)
}

func (o *serveOptions) addServingFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.listen, "listen", "127.0.0.1:6443", "`host:port` to serve HTTPS on; port 0 selects a free port")
	flags.StringSliceVar(&o.tlsSANs, "tls-san", nil,
		"additional DNS `name` or IP address of the serving certificate; may be given several times")
	flags.StringVar(&o.certFile, "tls-cert-file", "",
		"`file` with the serving certificate and its chain, instead of a generated one; reloaded when it changes")
	flags.StringVar(&o.keyFile, "tls-private-key-file", "", "`file` with the key of --tls-cert-file")
	o.routing = behind.ToReady
	flags.Var((*routingFlag)(&o.routing), "enable-aggregator-routing",
		"send requests for aggregated APIs and webhooks to the endpoints of their Services only (true), or to the ClusterIPs only (false), "+
			"which need a kube-proxy on this machine (default: to a ready endpoint, or to the ClusterIP of a Service without EndpointSlices)")
	flags.Lookup("enable-aggregator-routing").NoOptDefVal = "true"
	flags.BoolVar(&o.rejectRedirects, "aggregator-reject-forwarding-redirect", true,
		"answer 502 when the server of an aggregated API redirects a client")
}

func (o *serveOptions) addAccessFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.clientCAFile, "client-ca-file", "",
		"`file` with additional certificate authorities of clients; reloaded when it changes (default: that of adopted keys of k3s, if there are any)")
	flags.StringVar(&o.tokenFile, "token-auth-file", "",
		"`file` with bearer tokens, one line each: token,user,uid,\"group1,group2\"; reloaded when it changes")
}

func (o *serveOptions) addFeatureFlags(flags *pflag.FlagSet) {
	flags.Var(cliflag.NewMapStringBool(&o.featureGates), "feature-gates",
		"kube-apiserver's feature `gates` to turn on or off: CBORServingAndStorage=true")
	o.runtimeConfig = cliflag.ConfigurationMap{}
	flags.Var(&o.runtimeConfig, "runtime-config",
		"`APIs` to serve or not to serve: group/version=true, group/version/resource=false, v1=false for the core group; "+
			"api/all, api/ga, api/beta and api/alpha select all versions of that level")
	flags.BoolVar(&o.allowPrivileged, "allow-privileged", true,
		"allow Pods with privileged containers, which drivers of networks and volumes need")
	flags.StringSliceVar(&o.fastPaths, "fast-paths", nil,
		"turn fast paths off: -`name` for one, -all for all; answers do not depend on them (docs/fast-paths.md). Names: "+
			strings.Join(fastpath.Names(), ", "))
}

// serveRemoved is the variable by which kube-apiserver lets --runtime-config enable versions that its release removed.
const serveRemoved = "KUBE_APISERVER_SERVE_REMOVED_APIS_FOR_ONE_RELEASE"

// warn warns of settings that do not do what somebody may expect.
func (o *serveOptions) warn(logger *slog.Logger) {
	o.warnIdle(logger)
	o.http.warnCiphers(logger)
	o.proxies.warn(logger)
}

// warnIdle warns of settings without an effect: feature gates of which Rowlock has only the fields and types, because the controllers of
// kube-apiserver that implement them are missing here; and an environment variable.
func (o *serveOptions) warnIdle(logger *slog.Logger) {
	var names []string
	for name, on := range o.featureGates {
		gate := featuregate.Feature(strings.TrimPrefix(name, "kube:"))
		switch gate {
		case features.CoordinatedLeaderElection, features.StorageVersionAPI, features.UnknownVersionInteroperabilityProxy:
			if on {
				names = append(names, string(gate))
			}
		}
	}
	if asked, _ := strconv.ParseBool(os.Getenv(serveRemoved)); asked {
		names = append(names, serveRemoved)
	}
	if len(names) == 0 {
		return
	}
	slices.Sort(names)
	logger.Warn("turned on without effect", "names", strings.Join(names, " "))
}

// complete validates flags that depend on each other, and derives values. Its only side effects are on the feature
// gates and the fast paths of the process.
func (o *serveOptions) complete() error {
	var err error
	if o.dataDir, err = absoluteDataDir(o.dataDir); err != nil {
		return err
	}
	if err := o.storage.complete(o.dataDir); err != nil {
		return err
	}
	if err := o.history.complete(); err != nil {
		return err
	}
	if err := o.backups.complete(o.dataDir); err != nil {
		return err
	}
	if err := o.encryption.complete(); err != nil {
		return err
	}
	if err := o.controllers.complete(o.authentication.Bootstrap); err != nil {
		return err
	}
	if err := o.services.complete(); err != nil {
		return err
	}
	if err := o.tokens.complete(); err != nil {
		return err
	}
	if err := o.proxies.complete(); err != nil {
		return err
	}
	if err := o.authentication.complete(); err != nil {
		return err
	}
	if err := o.kubelets.complete(); err != nil {
		return err
	}
	if err := upstream.SetFeatureGates(o.featureGates); err != nil {
		return usagef("--feature-gates: %v", err)
	}
	if err := o.authorization.complete(); err != nil {
		return err
	}
	if o.apis, err = builtin.ParseRuntimeConfig(o.runtimeConfig); err != nil {
		return usagef("--runtime-config: %w", err)
	}
	if len(o.fastPaths) > 0 {
		if err := fastpath.Choose(o.fastPaths); err != nil {
			return usagef("--fast-paths: %w", err)
		}
	}
	if err := o.admission.complete(); err != nil {
		return err
	}
	if errs := slices.Concat(o.flow.check(o.runtimeConfig.String()), o.http.check(), o.audit.Check(), o.metrics.complete()); len(errs) > 0 {
		return usagef("%w", errs[0])
	}
	return o.completeServing()
}

func (o *serveOptions) completeServing() error {
	if err := checkListen(o.listen); err != nil {
		return err
	}
	switch {
	case o.certFile != "" && o.keyFile == "":
		return usagef("--tls-cert-file needs --tls-private-key-file")
	case o.keyFile != "" && o.certFile == "":
		return usagef("--tls-private-key-file needs --tls-cert-file")
	case o.certFile != "" && len(o.tlsSANs) > 0:
		return usagef("--tls-san cannot change the certificate of --tls-cert-file: give one or the other")
	}
	for i, name := range o.tlsSANs {
		if o.tlsSANs[i] = strings.ToLower(name); !pki.ValidName(o.tlsSANs[i]) {
			return usagef("--tls-san %q is neither a DNS name nor an IP address", name)
		}
	}
	return nil
}

func checkListen(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return usagef("--listen %q is not of the form host:port", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return usagef("--listen %q: the port must be a number from 0 to 65535", address)
	}
	return nil
}

// names returns the names of the serving certificate: the usual ones, the host of --listen, and --tls-san.
func (o *serveOptions) names(hostname string) []string {
	names := append(pki.DefaultNames(hostname, o.services.first.String()), o.tlsSANs...)
	host, _, _ := net.SplitHostPort(o.listen)
	if ip := net.ParseIP(host); pki.ValidName(host) && (ip == nil || !ip.IsUnspecified()) && !slices.Contains(names, host) {
		names = append(names, host)
	}
	return names
}
