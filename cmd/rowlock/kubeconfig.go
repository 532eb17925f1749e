package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rowlock/rowlock/server/pki"
)

func newKubeconfigCommand() *cobra.Command {
	var dataDir string
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig",
		Long: "Prints the administrator's kubeconfig of a data directory, complete with its certificates.\n" +
			"Whoever has it may do everything.",
		Example: "  rowlock kubeconfig > ~/.kube/config",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := absoluteDataDir(dataDir)
			if err != nil {
				return err
			}
			data, err := os.ReadFile(filepath.Join(dir, pki.KubeconfigName))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("no %s in %s: 'rowlock serve' writes it when it starts", pki.KubeconfigName, dir)
			}
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(data)
			return err
		},
	}
	cmd.Flags().SortFlags = false
	addDataDirFlag(cmd.Flags(), &dataDir)
	return cmd
}
