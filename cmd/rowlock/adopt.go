package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/server/pki"
)

// adoptOptions say which cluster's keys a server adopts.
type adoptOptions struct {
	dir, dataDir string
}

func (o *adoptOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "pki", "", "`directory` with the keys and certificates of the cluster, in the layout of kubeadm or k3s; they are copied into --data-dir")
	addDataDirFlag(flags, &o.dataDir)
}

// read returns the keys to adopt; nil: the flag is not set. Errors: also that the data directory has other keys.
func (o *adoptOptions) read(out io.Writer) (keys *pki.Adoption, err error) {
	if o.dir == "" {
		return nil, nil
	}
	if o.dataDir, err = absoluteDataDir(o.dataDir); err != nil {
		return nil, err
	}
	if keys, err = pki.ReadPKI(o.dir, time.Now()); err != nil {
		return nil, fmt.Errorf("--pki %s: %w", o.dir, err)
	}
	for _, part := range []struct {
		what  string
		lines []string
	}{{"Keys", keys.Adopted}, {"Not adopted", keys.Missing}, {"To note", keys.Advice}} {
		for _, line := range part.lines {
			fmt.Fprintf(out, "%s: %s\n", part.what, line)
		}
	}
	_, err = keys.Check(o.dataDir)
	return keys, err
}

func (o *adoptOptions) write(keys *pki.Adoption, out io.Writer) error {
	if err := keys.Write(o.dataDir); err != nil {
		return fmt.Errorf("adopt the keys: %w", err)
	}
	fmt.Fprintf(out, "The keys are in %s.\n", filepath.Join(o.dataDir, "pki"))
	return nil
}
