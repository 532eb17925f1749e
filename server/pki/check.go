package pki

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CheckFiles calls found for each file below pki/ of a data directory with which no server starts, with its path in the data directory, what is
// wrong with it, and what to do. It only reads. Files that the next start creates or replaces are no findings.
func CheckFiles(dataDir string, found func(file string, err error, do string)) {
	const again = "no server starts with it: restore it from a backup; if none has it, remove it"
	for _, c := range [...]struct{ name, do string }{
		{"ca.key", " with its certificate, and issue kubeconfigs and client certificates again"},
		{"front-proxy-ca.key", " with its certificate"},
		{"ca.next.pem", ", and replace the authority again"},
		{"front-proxy-ca.next.pem", ", and replace the authority again"},
		{"sa.key", ", and issue tokens of ServiceAccounts again"},
		{clientCAName, ", and its clients are refused"},
	} {
		err := checkFile(filepath.Join(dataDir, "pki", c.name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			found("pki/"+c.name, err, again+c.do)
		}
	}
}

// checkFile reads a file as a start does.
func checkFile(path string) error {
	if base, ok := strings.CutSuffix(path, "ca.key"); ok {
		base += "ca"
		ca, err := readKeyPair(base)
		if err == nil && ca != nil && ca.cert != nil && !ca.fits() {
			err = errMisfit(base)
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
