package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/server/egressselector"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/pkg/kubeapiserver/authorizer/modes"

	"github.com/rowlock/rowlock/cmd/rowlock/parent"
	"github.com/rowlock/rowlock/resources/behind"
)

// kubeAPIServerName is the name under which the program replaces kube-apiserver.
const kubeAPIServerName = "kube-apiserver"

// kubeAPIServerOptions are kube-apiserver's flags. Flags that serve has under the same name are in serve.
type kubeAPIServerOptions struct {
	serve serveOptions

	bindAddress net.IP
	securePort  int
	certDir     string
	etcdServers []string
	// signingEndpoint and egressFile configure features that do not exist here. A value that needs them is an error, so that no user relies on them.
	signingEndpoint, egressFile string

	verbosity string
	version   versionFlag

	acting, inert, own *pflag.FlagSet // inert are those without an effect
}

// newKubeAPIServerCommand returns kube-apiserver's command line, with exit code 1 for a usage error, as kube-apiserver has it.
func newKubeAPIServerCommand() *cobra.Command {
	o := &kubeAPIServerOptions{}
	cmd := &cobra.Command{
		Use:   kubeAPIServerName + " [flags]",
		Short: "Serve the Kubernetes API with kube-apiserver's command line",
		Long: "Serves the Kubernetes API and takes kube-apiserver's command line. Flags without a counterpart are accepted and\n" +
			"named in one warning. The etcd servers of --etcd-servers are not contacted: objects are kept in a temporary directory,\n" +
			"which is removed at the end, unless --datastore or --data-dir names a place. No controllers run unless\n" +
			"--controllers names them.",
		Args: func(cmd *cobra.Command, args []string) error {
			if strings.Join(args, "") != "" { // scripts with an unset variable pass empty arguments
				return fmt.Errorf("%q does not take any arguments, got %q", kubeAPIServerName, args)
			}
			return nil
		},
		SilenceErrors:     true,
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return setFromEnvironment(o.own, os.LookupEnv) },
		RunE:              func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return err })
	cmd.SetGlobalNormalizationFunc(cliflag.WordSepNormalizeFunc)
	addSections(cmd, o.sections())
	return cmd
}

// sections are kube-apiserver's flags that have an effect, Rowlock's own flags, and kube-apiserver's flags without an effect.
func (o *kubeAPIServerOptions) sections() []section {
	acting, none := flagSet(o.addFlags), func(*pflag.FlagSet) {}
	o.own, o.inert = flagSet(none), flagSet(none)
	for _, s := range o.serve.sections() {
		o.own.AddFlagSet(s.flags)
	}
	own := flagSet(none)
	for name, kind := range eachKubeAPIServerFlag() {
		if acting.Lookup(name) != nil {
			continue
		}
		if flag := o.own.Lookup(name); flag != nil {
			acting.AddFlag(flag)
		} else {
			addInert(o.inert, name, kind)
		}
	}
	addRetired(o.inert)
	o.own.VisitAll(func(f *pflag.Flag) {
		if acting.Lookup(f.Name) == nil && f.Name != "listen" && f.Name != configFlag {
			own.AddFlag(f)
		}
	})
	o.acting, o.own = acting, own
	o.setDefaults(acting, own)
	return []section{{"Flags of kube-apiserver", acting}, {"Flags of Rowlock", own}, {"Flags of kube-apiserver that do nothing here", o.inert}}
}

// setDefaults replaces the defaults of serve by those of kube-apiserver, which its users rely on: it runs no
// controllers, which kube-controller-manager runs, and it leaves nothing behind except in its database.
func (o *kubeAPIServerOptions) setDefaults(acting, own *pflag.FlagSet) {
	o.serve.services.ranges, acting.Lookup("service-cluster-ip-range").DefValue = "10.0.0.0/24", "10.0.0.0/24"
	o.serve.allowPrivileged, acting.Lookup("allow-privileged").DefValue = false, "false"
	o.serve.controllers.list, own.Lookup("controllers").DefValue = nil, "[]"
	o.serve.dataDir, own.Lookup("data-dir").DefValue = "", ""
	o.serve.routing, acting.Lookup("enable-aggregator-routing").DefValue = behind.ToCluster, "false"
	o.serve.admission.besides = nil
	o.serve.proxies.onlyNamed, o.serve.tokens.onlyKeyFiles = true, true
	o.serve.authorization.modes, acting.Lookup("authorization-mode").DefValue = []string{modes.ModeAlwaysAllow}, "[AlwaysAllow]"
	for name, usage := range otherUsages {
		acting.Lookup(name).Usage = usage
	}
}

// otherUsages are the texts of flags that differ from those of serve.
var otherUsages = map[string]string{
	"enable-aggregator-routing": "send requests for aggregated APIs and webhooks to the endpoints of their Services instead of the ClusterIPs, which need a kube-proxy on this machine",
	"advertise-address":         "`address` of the endpoint of the Service kubernetes (default: that of --bind-address, or the address of the default route)",
	"service-account-key-file": "`file` with keys in PEM, public or private, that verify ServiceAccount tokens; may be given several times; read once. " +
		"Without this flag, the key that signs verifies, too",
	"requestheader-username-headers":     "`header` with the name of the user; only the headers that these flags name are trusted",
	"requestheader-group-headers":        "`header` with the groups of the user",
	"requestheader-extra-headers-prefix": "`prefix` of headers with extra attributes of the user",
	"requestheader-uid-headers":          "`header` with the UID of the user; X-Remote-Uid has to be among them",
}

func (o *kubeAPIServerOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringSliceVar(&o.etcdServers, "etcd-servers", nil, "`URLs` of etcd servers; they are not contacted")
	flags.IPVar(&o.bindAddress, "bind-address", net.IPv4zero, "`address` to serve HTTPS on")
	flags.IntVar(&o.securePort, "secure-port", 6443, "`port` to serve HTTPS on")
	flags.StringVar(&o.certDir, "cert-dir", "",
		"`directory` with the serving certificate, apiserver.crt, and its key, apiserver.key; they are created if missing")
	flags.Int64Var(&o.serve.connectionRate, "max-connection-bytes-per-sec", 0,
		"`number` of bytes per second of each connection that is upgraded for a client of a node, Pod or Service, as by exec and port-forward; 0: no limit")
	flags.StringVar(&o.signingEndpoint, "service-account-signing-endpoint", "", "`socket` of an external signer of tokens; refused, because this server signs tokens itself")
	flags.StringVar(&o.egressFile, "egress-selector-config-file", "", "`file` with an EgressSelectorConfiguration; refused unless every connection in it is Direct")
	flags.StringSliceVar(&o.serve.admission.only, "admission-control", nil, "`names` of the admission plugins to run; all others are off")
	_ = flags.MarkDeprecated("admission-control", "Use --enable-admission-plugins or --disable-admission-plugins instead. Will be removed in a future version.")
	flags.Lookup("admission-control").Hidden = false
	flags.StringVarP(&o.verbosity, "v", "v", "0", "verbosity of the log: 1 and more is --log-level=info, 4 and more is debug")
	flags.Var(newChoice(&o.serve.log.format, "text", "json"), "logging-format", "format of log lines")
	o.serve.services.addReplacingFlags(flags)
	o.version = versionFalse
	flags.Var(&o.version, "version", "print the version of Kubernetes and exit; raw prints all details; vX.Y.Z-own serves, and reports that version")
	flags.Lookup("version").NoOptDefVal = "true"
}

func (o *kubeAPIServerOptions) run(cmd *cobra.Command) (err error) {
	if end, err := o.version.act(cmd.OutOrStdout()); end || err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	temporary := o.serve.dataDir == ""
	if temporary {
		if o.serve.dataDir, err = makeTemporary("rowlock-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.serve.dataDir)) }()
		// A temporary directory is not used after a power failure.
		o.serve.storage.synchronous = "normal"
	}
	if err := o.complete(); err != nil {
		return err
	}
	o.serve.flags = shownFlags(cmd.Flags())
	logger := o.serve.log.logger(cmd.ErrOrStderr())
	if names := o.withoutEffect(); len(names) > 0 {
		logger.Warn("accepted without effect", "flags", strings.Join(names, " "))
	}
	ctx := cmd.Context()
	if isEnvtestAsset() {
		var stop context.CancelFunc
		ctx, stop = withParent(ctx, parent.ID)
		defer stop()
	}
	return serve(ctx, &o.serve, logger, io.Discard)
}

// check refuses what kube-apiserver refuses, all at once and with its messages.
func (o *kubeAPIServerOptions) check() error {
	var errs []error
	if len(o.etcdServers) == 0 && o.serve.storage.datastore == "" && o.serve.storage.datastoreFile == "" {
		errs = append(errs, errors.New("--etcd-servers must be specified"))
	}
	if o.securePort < 1 || o.securePort > 65535 {
		errs = append(errs, fmt.Errorf("--secure-port %d must be between 1 and 65535, inclusive. It cannot be turned off with 0", o.securePort))
	}
	errs = append(errs, o.checkUnserved()...)
	errs = append(errs, checkInert(o.inert)...)
	errs = append(errs, o.serve.services.check()...)
	errs = append(errs, o.serve.flow.check(o.serve.runtimeConfig.String())...)
	errs = append(errs, o.serve.audit.Check()...)
	errs = append(errs, o.serve.metrics.complete()...)
	errs = append(errs, o.serve.http.check()...)
	errs = append(errs, o.serve.admission.check()...)
	return utilerrors.NewAggregate(errs)
}

// checkUnserved refuses features of kube-apiserver that Rowlock does not have and whose users rely on them.
func (o *kubeAPIServerOptions) checkUnserved() (errs []error) {
	if o.signingEndpoint != "" {
		errs = append(errs, errors.New("--service-account-signing-endpoint is not supported: tokens are signed with --service-account-signing-key-file"))
	}
	config, err := egressselector.ReadEgressSelectorConfiguration(o.egressFile)
	if err != nil {
		return append(errs, fmt.Errorf("failed to read egress selector config: %w", err))
	}
	if config == nil {
		return errs
	}
	for _, s := range config.EgressSelections {
		if s.Connection.ProxyProtocol != apiserver.ProtocolDirect {
			errs = append(errs, fmt.Errorf("--egress-selector-config-file: connections of %q by %s are not supported, only Direct", s.Name, s.Connection.ProxyProtocol))
		}
	}
	return errs
}

// complete derives the values for which serve has other flags.
func (o *kubeAPIServerOptions) complete() error {
	if o.bindAddress == nil {
		o.bindAddress = net.IPv4zero
	}
	o.serve.listen = net.JoinHostPort(o.bindAddress.String(), strconv.Itoa(o.securePort))
	advertised := o.dropUnreachable()
	// kube-apiserver ignores one half of a pair.
	if p := &o.serve.proxies; (p.certFile == "") != (p.keyFile == "") {
		p.certFile, p.keyFile = "", ""
		o.ignore("proxy-client-cert-file")
		o.ignore("proxy-client-key-file")
	}
	if n, err := strconv.Atoi(o.verbosity); err != nil {
		return fmt.Errorf("invalid argument %q for \"-v, --v\" flag: %w", o.verbosity, err)
	} else if n >= 1 {
		o.serve.log.level = levelOf(n)
	}
	inCertDir := o.certDir != "" && o.serve.certFile == "" && o.serve.keyFile == ""
	if inCertDir {
		base := filepath.Join(o.certDir, "apiserver")
		o.serve.certFile, o.serve.keyFile = base+".crt", base+".key"
	}
	err := o.serve.complete()
	if err == nil {
		err = o.serve.services.checkPeer(o.inert.Lookup("peer-ca-file").Value.String())
	}
	if err == nil && inCertDir {
		err = o.ensureCertificate(advertised)
	}
	// kube-apiserver ends with the same code for any error.
	var usage *usageError
	if errors.As(err, &usage) {
		return usage.err
	}
	return err
}

// dropUnreachable drops an advertised address that no endpoint can have, and returns the one that the certificate is for; nil: the default.
// kube-apiserver accepts any address: it uses the default in place of an unspecified one, and cannot create an endpoint with the others.
func (o *kubeAPIServerOptions) dropUnreachable() net.IP {
	given := o.serve.services.advertise
	if given == nil || reachable(given) {
		return given
	}
	o.serve.services.advertise = nil
	if given.IsUnspecified() {
		return nil
	}
	if !given.IsLoopback() { // envtest gives a loopback address
		o.ignore("advertise-address")
	}
	return given
}

// ignore counts a flag among those without an effect.
func (o *kubeAPIServerOptions) ignore(name string) { o.inert.AddFlag(o.acting.Lookup(name)) }

// ensureCertificate creates a self-signed serving certificate in --cert-dir if there is none, as kube-apiserver does: clients may use the
// certificate as their authority. As there, it is for the advertised address, too, and for that of the Service kubernetes, which pods use.
func (o *kubeAPIServerOptions) ensureCertificate(advertised net.IP) error {
	if ok, err := certutil.CanReadCertAndKey(o.serve.certFile, o.serve.keyFile); ok || err != nil {
		return err
	}
	host, ips, names := o.bindAddress.String(), []net.IP{o.bindAddress}, []string{"kubernetes.default.svc", "kubernetes.default", "kubernetes"}
	if o.bindAddress.IsUnspecified() {
		host, ips, names = "localhost", []net.IP{net.IPv4(127, 0, 0, 1)}, append(names, "localhost")
	}
	if advertised == nil {
		advertised, _ = utilnet.ResolveBindAddress(o.bindAddress) // a machine without a network has none
	}
	if advertised != nil {
		host = advertised.String()
	}
	cert, key, err := certutil.GenerateSelfSignedCertKey(host, append(ips, o.serve.services.first), names)
	if err != nil {
		return fmt.Errorf("unable to generate self signed cert: %w", err)
	}
	return errors.Join(certutil.WriteCert(o.serve.certFile, cert), keyutil.WriteKey(o.serve.keyFile, key))
}

// withoutEffect returns the given flags that have no effect.
func (o *kubeAPIServerOptions) withoutEffect() []string {
	var names []string
	o.inert.VisitAll(func(f *pflag.Flag) {
		if f.Changed {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}
