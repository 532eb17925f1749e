package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/rowlock/rowlock/resources/files"
)

// writeFile replaces a file atomically: a process that reads it, also after a crash, finds the old content or the new. When
// it returns, the new content survives a power cut: clients get certificates of keys that were written before.
func writeFile(path string, data []byte, mode fs.FileMode) error {
	if err := replaceFile(path, data, mode); err != nil {
		return err
	}
	return files.Sync(filepath.Dir(path))
}

func replaceFile(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = files.Give(f)
	if err == nil {
		_, err = f.Write(data)
	}
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// readKeyPair reads base.crt and base.key. The result is nil when there is no key, and has no certificate when only the
// key exists.
func readKeyPair(base string) (*keyPair, error) {
	data, err := os.ReadFile(base + ".key")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(base + ".crt"); err == nil {
			return nil, fmt.Errorf("%s.crt is there but its key %s.key is not; restore it, or remove both to begin anew", base, base)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key, err := parseKey(data)
	if err != nil {
		return nil, fmt.Errorf("%s.key: %w", base, err)
	}
	data, err = os.ReadFile(base + ".crt")
	if errors.Is(err, fs.ErrNotExist) {
		return &keyPair{key: key}, nil
	}
	if err != nil {
		return nil, err
	}
	certs, err := cert.ParseCertsPEM(data)
	if err != nil {
		return nil, fmt.Errorf("%s.crt: %w", base, err)
	}
	return &keyPair{cert: certs[0], key: key}, nil
}

// misfitError says that the files of readKeyPair do not belong together. It has their path without its extension.
type misfitError string

func (base misfitError) Error() string {
	return fmt.Sprintf("%s.key is not the key of %[1]s.crt", string(base))
}

// write writes the key before the certificate: if it is interrupted, the key is left without a certificate, which a
// renewal completes.
func (k *keyPair) write(base string) error {
	key, err := k.keyPEM()
	if err != nil {
		return err
	}
	if err := writeFile(base+".key", key, 0o600); err != nil {
		return err
	}
	return writeFile(base+".crt", k.certPEM(), 0o644)
}

func (k *keyPair) certPEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: cert.CertificateBlockType, Bytes: k.cert.Raw})
}

func (k *keyPair) keyPEM() ([]byte, error) { return keyutil.MarshalPrivateKeyToPEM(k.key) }

// parseKey reads a key. Keys that are created here are ECDSA keys; those of an adopted cluster may be RSA keys, as kubeadm's are.
func parseKey(data []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(data)
	if err != nil {
		return nil, err
	}
	switch k := key.(type) {
	case *ecdsa.PrivateKey:
		return k, nil
	case *rsa.PrivateKey:
		return k, nil
	}
	return nil, fmt.Errorf("a %T; only ECDSA and RSA keys are used here", key)
}

// parsePair reads the certificate of an authority and its key.
func parsePair(certificate, private []byte) (*keyPair, error) {
	key, err := parseKey(private)
	if err != nil {
		return nil, fmt.Errorf("its key: %w", err)
	}
	certs, err := cert.ParseCertsPEM(certificate)
	if err != nil {
		return nil, fmt.Errorf("its certificate: %w", err)
	}
	k := &keyPair{cert: certs[0], key: key}
	if !k.fits() {
		return nil, errors.New("its key is not that of its certificate")
	}
	return k, nil
}

// parseKeyPair reads a certificate with its chain, and its key, of any kind that TLS supports.
func parseKeyPair(contents [][]byte) (*tls.Certificate, error) {
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}

func parseCertificates(contents [][]byte) ([]*x509.Certificate, error) {
	return cert.ParseCertsPEM(contents[0])
}
