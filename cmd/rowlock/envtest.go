package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"
)

func newEnvtestAssetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest-assets DIR",
		Short: "Write the binaries that controller-runtime's envtest starts",
		Long: "Fills a directory for KUBEBUILDER_ASSETS, which tests of controllers use: kube-apiserver and etcd, which are this program\n" +
			"under those names, and kubectl, if PATH has one. It prints the line that sets the variable.",
		Example: "  export KUBEBUILDER_ASSETS=$PWD/bin/envtest\n" +
			"  rowlock envtest-assets $KUBEBUILDER_ASSETS\n" +
			"  go test ./...",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("a directory is needed, and nothing else")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			program, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			kubectl, _ := exec.LookPath("kubectl")
			if err := writeEnvtestAssets(dir, program, kubectl); err != nil {
				return err
			}
			if kubectl == "" {
				fmt.Fprintln(cmd.ErrOrStderr(), "There is no kubectl on PATH; envtest needs one only for tests that run it.")
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "export KUBEBUILDER_ASSETS=%s\n", shellQuoted(dir))
			return err
		},
	}
}

// writeEnvtestAssets fills a directory. kubectl is a path, or empty when there is none.
func writeEnvtestAssets(dir, program, kubectl string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	server := filepath.Join(dir, kubeAPIServerName)
	if err := place(program, server); err != nil {
		return err
	}
	if err := place(server, filepath.Join(dir, etcdName)); err != nil {
		return err
	}
	if kubectl == "" {
		return nil
	}
	return place(kubectl, filepath.Join(dir, "kubectl"))
}

// place makes a program available under another path, and replaces the file there: by a hard link if the file system
// allows it, which takes no room, else by a copy. Either stays when the original is removed.
func place(program, at string) error {
	program, err := filepath.EvalSymlinks(program)
	if err != nil {
		return err
	}
	from, err := os.Stat(program)
	if err != nil {
		return err
	}
	if to, err := os.Stat(at); err == nil && os.SameFile(from, to) {
		return nil
	}
	temporary := at + ".new"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if os.Link(program, temporary) != nil {
		data, err := os.ReadFile(program)
		if err != nil {
			return err
		}
		if err := os.WriteFile(temporary, data, 0o755); err != nil {
			return err
		}
	}
	return os.Rename(temporary, at)
}

// isEnvtestAsset tells whether writeEnvtestAssets wrote this program: then its etcd is in the same directory.
func isEnvtestAsset() bool {
	program, err := os.Executable()
	if err != nil {
		return false
	}
	own, err := os.Stat(program)
	if err != nil {
		return false
	}
	etcd, err := os.Stat(filepath.Join(filepath.Dir(program), etcdName))
	return err == nil && os.SameFile(own, etcd)
}
