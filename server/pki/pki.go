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

// refreshInterval is how often an idle server looks whether a certificate has to be renewed; a busy one looks at every
// handshake. It is far shorter than the time between the start of a renewal and the end of a certificate.
const refreshInterval = 24 * time.Hour

// loopbackName is the server name under which a server that was given a certificate by its user still shows its own,
// so that admin.kubeconfig, which trusts the own authority alone, keeps working whichever authority signed the other.
const loopbackName = "loopback.rowlock.internal"

// Options say where certificates are kept and what they are to contain.
type Options struct {
	// DataDir holds pki/ and admin.kubeconfig. It is created, readable by its owner alone, if it does not exist.
	DataDir string
	// Names are the DNS names and IP addresses of the serving certificate; see DefaultNames.
	Names []string
	// CertFile and KeyFile, given together, are shown to clients instead of the own serving certificate.
	CertFile, KeyFile string
	// SNI are further certificates, for clients that ask for their names. Earlier ones go first.
	SNI []NamedPair
	// TLS is what clients may choose from.
	TLS TLSOptions
	// ClientCAFile holds further authorities whose client certificates are accepted. Optional.
	ClientCAFile string
	// ProxyCertFile and ProxyKeyFile, given together, are shown to servers that extend the API instead of the own certificate.
	ProxyCertFile, ProxyKeyFile string
	// ProxyCAFile holds the authorities of ProxyCertFile, and of those who say, to this server, on whose behalf a request is sent.
	ProxyCAFile string
	// Shared is the database of several servers, which then have one authority, kept there: what one of them issues, all
	// accept. Optional.
	Shared *resources.Rows
	// Left is a database that is this server's alone, and may have keys that servers shared when it was another one. Optional.
	Left *resources.Rows
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger hears of renewals and of their failures. Default: slog.Default().
	Logger *slog.Logger
}

// PKI is the set of certificates of one server. Its methods may be called concurrently.
type PKI struct {
	opts        Options
	provisional bool // it is of Provisional

	mu        sync.Mutex // serialises renewals and writes to the data directory
	serverURL string     // what admin.kubeconfig points at; empty until WriteKubeconfig

	ca       atomic.Pointer[keyPair]
	serving  atomic.Pointer[tls.Certificate]
	proxyCA  atomic.Pointer[keyPair]
	proxy    atomic.Pointer[tls.Certificate]
	looked   atomic.Int64 // Unix seconds; when a renewal was looked for
	nextLook atomic.Int64 // Unix seconds; no renewal is due before, unless the clock went back

	userCert   *reloading[*tls.Certificate]    // nil without CertFile
	named      []named                         // Options.SNI
	clientCAs  *reloading[[]*x509.Certificate] // nil without ClientCAFile
	userProxy  *reloading[*tls.Certificate]    // nil without ProxyCertFile
	proxyCAs   *reloading[[]*x509.Certificate] // nil without ProxyCAFile
	pool       atomic.Pointer[clientPool]
	forClients atomic.Pointer[tls.Config] // what configForClient returned last
}

// Open reads the certificates of a data directory, and creates or renews what is missing, due, or not as asked for.
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
		if err := p.inheritAuthority(a); err != nil {
			return nil, fmt.Errorf("certificate authority of the database: %w", err)
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
	return p, nil
}

// open reads what the user gave.
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
	if opts.ClientCAFile != "" {
		if p.clientCAs, err = newReloading(p.reloadOptions(), parseCertificates, opts.ClientCAFile); err != nil {
			return nil, err
		}
	}
	return p, p.openProxyFiles()
}

// Refresh renews whatever is due and writes it to the data directory. A server calls it through Run and through each
// handshake; it costs little when nothing is due.
func (p *PKI) Refresh() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.refresh(p.opts.Now())
}

// refresh goes by one time throughout, which it notes as that of the look: when the clock jumps meanwhile, what it has made is found to be due again.
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

// TLSConfig returns what a listener needs: the serving certificate, chosen anew for each handshake, and the wish for a
// client certificate of one of ClientCAs. Whom a client certificate stands for is decided where requests are
// authenticated, so that a bad one is answered with 401 and not with a broken connection.
func (p *PKI) TLSConfig() *tls.Config {
	c := p.tlsConfig(nil)
	c.GetConfigForClient = p.configForClient
	return c
}

// configForClient names the authorities to the client, which chooses among its certificates by them. They may change
// while the server runs.
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
		// Small records at the start of a connection spare a browser some latency; here they cost a system call each.
		DynamicRecordSizingDisabled: true,
		NextProtos:                  protocols,
		ClientAuth:                  tls.RequestClientCert,
		ClientCAs:                   clientCAs,
		GetCertificate:              p.getCertificate,
	}
}

func (p *PKI) getCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	// The daily tick stands still while a machine sleeps; a handshake after a long sleep must not meet an expired
	// certificate.
	if p.due(p.opts.Now()) {
		p.refreshDue()
	}
	if hello.ServerName == loopbackName {
		return p.serving.Load(), nil
	}
	if c := p.namedFor(hello.ServerName); c != nil {
		return c, nil
	}
	server := p.serving.Load()
	if p.userCert != nil {
		server = p.userCert.get().value
	}
	return p.fitting(hello, server), nil
}

// ClientCAs returns the authorities whose client certificates are accepted. It is the same pool until they change, so
// that what was verified against it may be remembered under it.
func (p *PKI) ClientCAs() *x509.CertPool { return p.clientPool().pool }

// Certificates returns the authorities of ClientCAs.
func (p *PKI) Certificates() []*x509.Certificate { return p.clientPool().certificates() }

// Authority returns the certificate that clients know this server by, as PEM. Changed tells of another.
func (p *PKI) Authority() []byte { return p.ca.Load().certPEM() }

// AuthorityFiles returns where the authority's certificate and key are, as PEM.
func (p *PKI) AuthorityFiles() (certificate, key string) {
	base := p.base(clientAuthority)
	return base + ".crt", base + ".key"
}

// Changed returns a channel that is closed when ClientCAs has returned another pool, which it also does when ProxyAuthorities
// are others. A file of authorities is looked at
// when a client shows a certificate.
func (p *PKI) Changed() <-chan struct{} { return p.clientPool().replaced }

// looksAgain puts off the next look.
func (p *PKI) looksAgain(now time.Time, in time.Duration) {
	p.looked.Store(now.Unix())
	p.nextLook.Store(now.Add(in).Unix())
}

// due tells whether it is time for the next look. It is when the clock shows less than at the last one: what was renewed when it was ahead is not valid yet
// for those who have the right time.
func (p *PKI) due(now time.Time) bool {
	return now.Unix() >= p.nextLook.Load() || now.Unix() < p.looked.Load()
}

// refreshDue is Refresh where no caller waits for its error: what is there stays in use, and it is tried again soon. Of
// many handshakes that find a renewal due at once, one does the work.
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

// authority is one of those that a server has.
type authority struct {
	// name is that of its files and of its row in the database, commonName what its certificate says.
	name, commonName string
}

var clientAuthority = authority{"ca", "rowlock-ca"}

func (p *PKI) base(a authority) string { return filepath.Join(p.opts.DataDir, "pki", a.name) }

// refreshCA returns an authority as it is to be used from now on; known is what is in use, nil at first.
func (p *PKI) refreshCA(a authority, known *keyPair, now time.Time) (*keyPair, error) {
	base := p.base(a)
	ca, err := readKeyPair(base)
	if err != nil {
		return nil, err
	}
	if ca != nil && ca.cert != nil && !ca.fits() {
		return nil, fmt.Errorf("%s.key is not the key of %s.crt", base, base)
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
	// A serving certificate that cannot be read is as good as none: no client loses anything by a new one.
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
