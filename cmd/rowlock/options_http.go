package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/rowlock/rowlock/server"
	"github.com/rowlock/rowlock/server/pki"
)

// httpOptions configure TLS and HTTP, like kube-apiserver's flags of the same names.
type httpOptions struct {
	minTLS  string
	ciphers []string
	curves  []int32
	sni     []cliflag.NamedCertKey

	corsOrigins    []string
	hsts           []string
	goawayChance   float64
	maxStreams     int
	withoutHTTP2   bool
	sharesPort     bool
	sharesAddress  bool
	requestTimeout time.Duration
	watchTimeout   int // seconds
	shutdownDelay  time.Duration
	retryAfter     bool
	profiling      bool
	contention     bool
	debugSocket    string
}

func (o *httpOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.minTLS, "tls-min-version", "", "oldest `version` of TLS: VersionTLS12 (default) or VersionTLS13")
	flags.StringSliceVar(&o.ciphers, "tls-cipher-suites", nil, "cipher `suites` of TLS 1.2, by Go's names (default: Go's)")
	flags.Int32SliceVar(&o.curves, "tls-curve-preferences", nil, "key exchange mechanisms, as numbers of Go's crypto/tls.CurveID; none: Go's defaults")
	flags.Var(cliflag.NewNamedCertKeyArray(&o.sni), "tls-sni-cert-key",
		"additional serving certificate for clients that ask for one of its names (SNI) or connect to one of its addresses: `cert,key` or cert,key:name,*.name,10.0.0.1; may be given several times; reloaded when it changes")
	flags.Lookup("tls-sni-cert-key").DefValue = "" // an empty value can be given, unlike the [] of this kind of flag
	flags.IntVar(&o.maxStreams, "http2-max-streams-per-connection", 1000, "most concurrent requests of an HTTP/2 connection; 0 is kube-apiserver's default, 100")
	flags.BoolVar(&o.withoutHTTP2, "disable-http2-serving", false, "serve HTTP/1.1 only")
	flags.Float64Var(&o.goawayChance, "goaway-chance", 0,
		"`share` of requests, up to 0.02, after which an HTTP/2 client has to open a new connection, so that a load balancer can choose another server")
	flags.StringSliceVar(&o.corsOrigins, "cors-allowed-origins", nil, "regular `expressions` of origins that browsers may send requests from (CORS), anchored at both ends of the host: //example\\.com(:|$)")
	flags.StringSliceVar(&o.hsts, "strict-transport-security-directives", nil, "`directives` of HSTS: max-age=31536000,includeSubDomains,preload")
	flags.BoolVar(&o.sharesAddress, "permit-address-sharing", false, "listen with SO_REUSEADDR")
	flags.BoolVar(&o.sharesPort, "permit-port-sharing", false, "listen with SO_REUSEPORT, so that several servers can share a port")
	flags.DurationVar(&o.requestTimeout, "request-timeout", time.Minute, "time limit of requests, except for streams: watches, logs, exec, attach, port-forward, proxies")
	flags.IntVar(&o.watchTimeout, "min-request-timeout", 1800, "shortest time in seconds after which the server ends a watch")
	flags.DurationVar(&o.shutdownDelay, "shutdown-delay-duration", 0, "how long a server keeps serving after SIGTERM, while /readyz already fails")
	flags.BoolVar(&o.retryAfter, "shutdown-send-retry-after", false, "while the last requests finish after SIGTERM, answer new ones with 429 instead of refusing connections")
	flags.BoolVar(&o.profiling, "profiling", true, "serve /debug/pprof/")
	flags.BoolVar(&o.contention, "contention-profiling", false, "record where goroutines block, for /debug/pprof/block")
	flags.StringVar(&o.debugSocket, "debug-socket-path", "", "`path` of a Unix socket that serves /debug/pprof/ and /debug/flags/v to the user of the process, without credentials")
}

// check returns what kube-apiserver refuses, with its messages.
func (o *httpOptions) check() (errs []error) {
	if o.goawayChance < 0 || o.goawayChance > 0.02 {
		errs = append(errs, errors.New("--goaway-chance can not be less than 0 or greater than 0.02"))
	}
	if o.requestTimeout < 0 {
		errs = append(errs, errors.New("--request-timeout can not be negative value"))
	}
	if o.watchTimeout < 0 {
		errs = append(errs, errors.New("--min-request-timeout can not be negative value"))
	}
	if o.shutdownDelay < 0 {
		errs = append(errs, errors.New("--shutdown-delay-duration can not be negative value"))
	}
	for _, check := range []func() error{o.checkHSTS, o.checkOrigins, func() error { return o.fillTLS(&pki.Options{}) }} {
		if err := check(); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

func (o *httpOptions) checkHSTS() error {
	var errs []error
	for _, directive := range o.hsts {
		name, age, _ := strings.Cut(directive, "=")
		switch {
		case strings.TrimSpace(directive) == "":
			errs = append(errs, errors.New("empty value in strict-transport-security-directives"))
		case directive != "includeSubDomains" && directive != "preload" && (name != "max-age" || !strings.Contains(directive, "=") || strings.Contains(age, "=")):
			errs = append(errs, errors.New("--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, preload. "+
				"see https://tools.ietf.org/html/rfc6797#section-6.1 for more information"))
		}
	}
	return utilerrors.NewAggregate(errs)
}

// checkOrigins requires expressions that are anchored at the beginning and the end of a host: others match the hosts of
// other sites as well (CVE-2022-1996).
func (o *httpOptions) checkOrigins() error {
	for _, origin := range o.corsOrigins {
		_, err := regexp.Compile(origin)
		begins := strings.Contains(origin, "^") || strings.Contains(origin, "//")
		ends := strings.Contains(origin, "$") || strings.Contains(origin, ":")
		switch {
		case origin == "":
			return errors.New("empty value in --cors-allowed-origins")
		case err != nil:
			return fmt.Errorf("--cors-allowed-origins has an invalid regular expression: %w", err)
		case !begins || !ends:
			return errors.New("--cors-allowed-origins has an invalid regular expression: regular expression does not pin to start/end of host in the origin header")
		}
	}
	return nil
}

// fillTLS sets the TLS options.
func (o *httpOptions) fillTLS(to *pki.Options) (err error) {
	to.TLS.HTTP1 = o.withoutHTTP2
	if to.TLS.MinVersion, err = cliflag.TLSVersion(o.minTLS); err != nil {
		return err
	}
	if to.TLS.CipherSuites, err = cliflag.TLSCipherSuites(o.ciphers); err != nil {
		return err
	}
	if to.TLS.CurvePreferences, err = cliflag.TLSCurvePreferences(o.curves); err != nil {
		return err
	}
	for _, pair := range o.sni {
		to.SNI = append(to.SNI, pki.NamedPair{Names: pair.Names, CertFile: pair.CertFile, KeyFile: pair.KeyFile})
	}
	return nil
}

// warnCiphers warns of cipher suites that are insecure, with kube-apiserver's message.
func (o *httpOptions) warnCiphers(logger *slog.Logger) {
	insecure := cliflag.InsecureTLSCipherNames()
	for _, suite := range o.ciphers {
		if slices.Contains(insecure, suite) {
			logger.Warn(fmt.Sprintf("Use of insecure cipher '%s' detected.", suite))
		}
	}
}

// bind listens on an address.
func (o *httpOptions) bind(ctx context.Context, address string) (net.Listener, error) {
	var c net.ListenConfig
	if o.sharesPort || o.sharesAddress {
		c.Control = func(_, _ string, conn syscall.RawConn) error {
			var set error
			err := conn.Control(func(fd uintptr) {
				if o.sharesPort {
					set = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
				}
				if o.sharesAddress {
					set = errors.Join(set, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
				}
			})
			return errors.Join(err, set)
		}
	}
	return c.Listen(ctx, listenNetwork(address), address)
}

func (o *httpOptions) server(log *logOptions) server.HTTP {
	if o.contention && (o.profiling || o.debugSocket != "") { // or nothing would show it
		runtime.SetBlockProfileRate(1)
	}
	return server.HTTP{CORSAllowedOrigins: o.corsOrigins, HSTSDirectives: o.hsts, GoawayChance: o.goawayChance, MaxStreams: max(o.maxStreams, 0),
		WithoutHTTP2: o.withoutHTTP2, MinWatchTimeout: time.Duration(o.watchTimeout) * time.Second, ShutdownDelay: o.shutdownDelay,
		RetryAfter: o.retryAfter, WithoutProfiling: !o.profiling, SetVerbosity: log.setVerbosity}
}
