package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CheckFiles calls found for each file below pki/ of a data directory with which no server starts, with its path in the data directory, what is
// wrong with it, and what to do. It only reads. Files that the next start creates or replaces are no findings. stored has the names of the
// authorities in the database; shared tells whether servers share it: then these authorities replace a key and a certificate that do not fit.
func CheckFiles(dataDir string, stored []string, shared bool, found func(file string, err error, do string)) {
	for _, c := range [...]struct{ name, unless, do string }{
		{"ca.key", "", " with its certificate, and issue kubeconfigs and client certificates again"},
		{"front-proxy-ca.key", "", " with its certificate"},
		{"ca.next.pem", "", ", and replace the authority again"},
		{"front-proxy-ca.next.pem", "", ", and replace the authority again"},
		{"sa.key", " unless --service-account-signing-key-file is given", ", and issue tokens of ServiceAccounts again"},
		{clientCAName, " unless --client-ca-file is given", ", and its clients are refused"},
	} {
		err, none := checkFile(filepath.Join(dataDir, "pki", c.name)), "no server"
		if errors.As(err, new(misfitError)) && slices.Contains(stored, strings.TrimSuffix(c.name, ".key")) {
			if shared {
				continue
			}
			none = "no server on SQLite"
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found("pki/"+c.name, err, none+" starts with it"+c.unless+": restore it from a backup; if none has it, remove it"+c.do)
		}
	}
}

// checkFile reads a file as a start does.
func checkFile(path string) error {
	if base, ok := strings.CutSuffix(path, "ca.key"); ok {
		base += "ca"
		ca, err := readKeyPair(base)
		if err == nil && ca != nil && ca.cert != nil && !ca.fits() && !replaced(base) {
			err = misfitError(base)
		}
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch filepath.Ext(path) {
	case ".pem":
		_, err = parsePair(data, data)
	case ".crt":
		_, err = parseCertificates([][]byte{data})
	default:
		var keys []any
		if keys, err = parseTokenKeys(data); err == nil {
			_, err = (&TokenKeys{}).made(nil, keys, nil)
		}
	}
	return err
}

// replaced tells whether the next start replaces an authority. If the one before was interrupted meanwhile, the key is new and the certificate old.
func replaced(base string) bool {
	data, err := os.ReadFile(nextOf(base))
	if err == nil {
		_, err = parsePair(data, data)
	}
	return err == nil
}
