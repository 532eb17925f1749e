package pki

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rowlock/rowlock/resources"
	"github.com/rowlock/rowlock/resources/files"
)

// refreshInterval is how often an idle server checks whether a certificate has to be renewed; a busy one checks at
// every handshake. It is far shorter than the time between the start of a renewal and the end of a certificate.
const refreshInterval = 24 * time.Hour

// loopbackName is the server name for which a server with a certificate from its user still presents its own one.
// admin.kubeconfig then asks for this name and trusts only the server's own authority, so it works whichever authority
// signed the other certificate.
const loopbackName = "loopback.rowlock.internal"

// Options say where certificates are stored and what they contain.
type Options struct {
	// DataDir holds pki/ and admin.kubeconfig. If it does not exist, it is created, readable by its owner alone.
	DataDir string
	// Names are the DNS names and IP addresses of the serving certificate; see DefaultNames.
	Names []string
	// CertFile and KeyFile, given together, replace the server's own serving certificate for clients.
	CertFile, KeyFile string
	// SNI are further certificates, chosen by the server name that a client sends, or the address it connects to. Earlier ones take precedence.
	SNI []NamedPair
	// TLS are the TLS parameters that clients may choose from.
	TLS TLSOptions
	// ClientCAFile holds further authorities whose client certificates are accepted. Default: the authority of clients that was adopted, if there is one.
	ClientCAFile string
	// ProxyCertFile and ProxyKeyFile, given together, replace the own client certificate for extension API servers.
	ProxyCertFile, ProxyKeyFile string
	// ProxyCAFile holds the authorities of ProxyCertFile, and of front proxies that send requests to this server on behalf of users.
	ProxyCAFile string
	// Shared is the database of several servers, which then share one authority that is stored there: all accept
	// certificates issued by any. Optional.
	Shared *resources.Rows
	// Left is the database of a server that is alone on it. It may have keys that servers shared before a migration or a restore. Optional.
	Left *resources.Rows
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger logs renewals and their failures. Default: slog.Default().
	Logger *slog.Logger
}

// PKI is the set of certificates of one server. Its methods may be called concurrently.
type PKI struct {
	opts        Options
	provisional bool // it was returned by Provisional

	mu        sync.Mutex // serialises renewals and writes to the data directory
	serverURL string     // the server in admin.kubeconfig; empty until WriteKubeconfig

	ca       atomic.Pointer[keyPair]
	serving  atomic.Pointer[tls.Certificate]
	proxyCA  atomic.Pointer[keyPair]
	proxy    atomic.Pointer[tls.Certificate]
	looked   atomic.Int64 // Unix seconds; when the need for a renewal was last checked
	nextLook atomic.Int64 // Unix seconds; no renewal is due before, unless the clock went back

	userCert   *reloading[*tls.Certificate]    // nil without CertFile
	named      []named                         // Options.SNI
	clientCAs  *reloading[[]*x509.Certificate] // nil without a file
	userProxy  *reloading[*tls.Certificate]    // nil without ProxyCertFile
	proxyCAs   *reloading[[]*x509.Certificate] // nil without ProxyCAFile
	pool       atomic.Pointer[clientPool]
	forClients atomic.Pointer[tls.Config] // the last result of configForClient
}

// Open reads the certificates of a data directory. It creates missing ones, and renews those that are due or do not
// match the options.
//
// It fails when the directory cannot be written, when the authority's files are damaged (they are never replaced
// silently: every client trusts them), or when a file that the user gave cannot be read.
func Open(opts Options) (*PKI, error) {
	p, err := open(opts)
	if err != nil {
		return nil, err
	}
	if err := files.MakeDir(filepath.Join(opts.DataDir, "pki")); err != nil {
		return nil, err
	}
	for _, a := range []authority{clientAuthority, proxyAuthority} {
		if err := p.inheritAuthority(a); err != nil { // by which the row of another database goes, if the files have its authority
			return nil, fmt.Errorf("certificate authority of the database: %w", err)
		}
		if err := p.useNext(a); err != nil {
			return nil, fmt.Errorf("certificate authority: %w", err)
		}
	}
	if opts.Shared != nil {
		for _, a := range []authority{clientAuthority, proxyAuthority} {
			if err := p.agree(opts.Shared, a); err != nil {
				return nil, fmt.Errorf("certificate authority of the database: %w", err)
			}
		}
	}
	if err := p.Refresh(); err != nil {
		return nil, err
	}
	if p.clientCAs != nil && opts.ClientCAFile == "" {
		p.opts.Logger.Info("client certificates of an adopted authority are accepted; to refuse them, remove the file and restart the server",
			"file", filepath.Join(opts.DataDir, "pki", clientCAName))
	}
	return p, nil
}

// open reads the files that the user gave.
func open(opts Options) (*PKI, error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.Default()
	}
	p := &PKI{opts: opts}
	var err error
	if opts.CertFile != "" {
		if p.userCert, err = newReloading(p.reloadOptions(), parseKeyPair, opts.CertFile, opts.KeyFile); err != nil {
			return nil, err
		}
	}
	if err := p.openNamed(); err != nil {
		return nil, err
	}
	authorities, err := opts.clientCAFile()
	if err != nil {
		return nil, err
	}
	if authorities != "" {
		if p.clientCAs, err = newReloading(p.reloadOptions(), parseCertificates, authorities); err != nil {
			return nil, err
		}
	}
	return p, p.openProxyFiles()
}

// Refresh renews the certificates that are due and writes them to the data directory. A server calls it through Run and
// through each handshake; it costs little when none is due.
func (p *PKI) Refresh() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refresh(p.opts.Now())
}

// refresh uses one time throughout, and records it as the time of the check: if the clock jumps back meanwhile, the next check finds the new
// certificates due again.
func (p *PKI) refresh(now time.Time) error {
	if p.provisional {
		return p.refreshProvisional(now)
	}
	ca, err := p.refreshCA(clientAuthority, p.ca.Load(), now)
	if err != nil {
		return fmt.Errorf("certificate authority: %w", err)
	}
	p.ca.Store(ca)
	serving, err := p.refreshServing(ca, now)
	if err != nil {
		return fmt.Errorf("serving certificate: %w", err)
	}
	p.serving.Store(serving.tls())
	if err := p.refreshProxy(now); err != nil {
		return fmt.Errorf("front proxy: %w", err)
	}
	if p.serverURL != "" {
		if err := p.refreshKubeconfig(now); err != nil {
			return err
		}
	}
	p.looksAgain(now, refreshInterval)
	return nil
}

// Run renews certificates until ctx ends. It wakes once a day.
func (p *PKI) Run(ctx context.Context) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.refreshDue()
		}
	}
}

// TLSConfig returns the configuration of a listener: it chooses the serving certificate at each handshake, and requests
// a client certificate of one of ClientCAs. Client certificates are verified when requests are authenticated, so that a
// bad one is answered with 401 and not with a broken connection.
func (p *PKI) TLSConfig() *tls.Config {
	c := p.tlsConfig(nil)
	c.GetConfigForClient = p.configForClient
	return c
}

// configForClient tells the client the authorities, by which it chooses among its certificates. They may change while
// the server runs.
func (p *PKI) configForClient(*tls.ClientHelloInfo) (*tls.Config, error) {
	pool := p.clientPool().named
	if known := p.forClients.Load(); known != nil && known.ClientCAs == pool {
		return known, nil
	}
	made := p.tlsConfig(pool)
	p.forClients.Store(made)
	return made, nil
}

func (p *PKI) tlsConfig(clientCAs *x509.CertPool) *tls.Config {
	protocols := []string{"h2", "http/1.1"}
	if p.opts.TLS.HTTP1 {
		protocols = protocols[1:]
	}
	return &tls.Config{
		MinVersion:       cmp.Or(p.opts.TLS.MinVersion, tls.VersionTLS12),
		CipherSuites:     p.opts.TLS.CipherSuites,
		CurvePreferences: p.opts.TLS.CurvePreferences,
		// Small records at the start of a connection save a browser some latency; here they cost a system call each.
		DynamicRecordSizingDisabled: true,
		NextProtos:                  protocols,
		ClientAuth:                  tls.RequestClientCert,
		ClientCAs:                   clientCAs,
		GetCertificate:              p.getCertificate,
	}
}

func (p *PKI) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	// The daily tick stands still while a machine sleeps; a handshake after a long sleep must not use an expired
	// certificate.
	if p.due(p.opts.Now()) {
		p.refreshDue()
	}
	if hello.ServerName == loopbackName {
		return p.serving.Load(), nil
	}
	if c := p.namedFor(nameFor(hello)); c != nil {
		return c, nil
	}
	server := p.serving.Load()
	if p.userCert != nil {
		server = p.userCert.get().value
	}
	return p.fitting(hello, server), nil
}

// ClientCAs returns the authorities whose client certificates are accepted. It is the same pool until they change, so
// that results of verification may be cached with the pool as a key.
func (p *PKI) ClientCAs() *x509.CertPool { return p.clientPool().pool }

// Certificates returns the authorities of ClientCAs.
func (p *PKI) Certificates() []*x509.Certificate { return p.clientPool().certificates() }

// Authority returns the certificate by which clients verify this server, as PEM. Changed reports when it changes.
func (p *PKI) Authority() []byte { return p.ca.Load().certPEM() }

// AuthorityFiles returns the paths of the authority's certificate and key, as PEM. They have the authority in use: one that replaces it is in
// another file until the next start.
func (p *PKI) AuthorityFiles() (certificate, key string) {
	base := p.base(clientAuthority)
	return base + ".crt", base + ".key"
}

// Changed returns a channel that is closed when ClientCAs has returned another pool, which it also does when ProxyAuthorities
// change. A file of authorities is checked when a client sends a certificate.
func (p *PKI) Changed() <-chan struct{} { return p.clientPool().replaced }

// looksAgain schedules the next check.
func (p *PKI) looksAgain(now time.Time, in time.Duration) {
	p.looked.Store(now.Unix())
	p.nextLook.Store(now.Add(in).Unix())
}

// due tells whether it is time for the next check. It also is when the clock is behind the time of the last one: certificates that were issued
// while the clock was ahead are not valid yet for clients with the right time.
func (p *PKI) due(now time.Time) bool {
	return now.Unix() >= p.nextLook.Load() || now.Unix() < p.looked.Load()
}

// refreshDue is Refresh without a caller that waits for its error: the present certificates stay in use, and it is
// retried soon. When many handshakes find a renewal due at once, one does the work.
func (p *PKI) refreshDue() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.opts.Now()
	if !p.due(now) {
		return
	}
	if err := p.refresh(now); err != nil {
		p.looksAgain(now, time.Minute)
		p.opts.Logger.Error("certificates could not be renewed", "error", err)
	}
}

// authority is one of the server's certificate authorities.
type authority struct {
	// name is the name of its files and of its row in the database, commonName the name in its certificate.
	name, commonName string
}

var clientAuthority = authority{"ca", "rowlock-ca"}

func (p *PKI) base(a authority) string { return filepath.Join(p.opts.DataDir, "pki", a.name) }

// refreshCA returns the current certificate of an authority, renewed if that is due; known is the one in use, nil at first. An authority with
// another key takes its place only at a start: the clients of a running server trust the one in use, and have certificates of it.
func (p *PKI) refreshCA(a authority, known *keyPair, now time.Time) (*keyPair, error) {
	base := p.base(a)
	ca, err := readKeyPair(base)
	if err != nil {
		return nil, err
	}
	if known != nil && (ca == nil || !sameKey(ca.key.Public(), known.key.Public())) {
		p.opts.Logger.Warn("the files of the certificate authority have changed; the one in use stays until the next start", "name", a.name)
		return known, nil
	}
	if ca != nil && ca.cert != nil && !ca.fits() {
		return nil, misfitError(base)
	}
	if ca.current(now) {
		if known != nil && known.cert.Equal(ca.cert) {
			return known, nil
		}
		return ca, nil
	}
	renewed, err := issueCA(now, a.commonName, ca)
	if err != nil {
		return nil, err
	}
	p.opts.Logger.Info("issued certificate authority", "name", a.name, "notAfter", renewed.cert.NotAfter)
	return renewed, renewed.write(base)
}

func (p *PKI) refreshServing(ca *keyPair, now time.Time) (*keyPair, error) {
	base := filepath.Join(p.opts.DataDir, "pki", "apiserver")
	// An unreadable serving certificate is replaced: no client loses anything by a new one.
	have, err := readKeyPair(base)
	names := p.servingNames()
	if err == nil && have.usable(ca, now) && names.equal(have.cert) {
		return have, nil
	}
	issued, err := issueServing(ca, now, names)
	if err != nil {
		return nil, err
	}
	p.opts.Logger.Info("issued serving certificate", "names", names.strings(), "notAfter", issued.cert.NotAfter)
	return issued, issued.write(base)
}
