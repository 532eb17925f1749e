package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// warnEmptied says that a database has nothing, not even the namespaces that each has from its first start on, while the data directory has the
// kubeconfig that a server writes when it has begun. That may be meant. It may also be that the database was lost, moved or is not mounted, and then whoever was
// known is known still, and finds no object: kubelets, for one, end all Pods.
func warnEmptied(logger *slog.Logger, store *sqlstore.Store, dataDir string) {
	if store.Amount("namespaces").Objects > 0 {
		return
	}
	if _, err := os.Lstat(filepath.Join(dataDir, pki.KubeconfigName)); err == nil {
		logger.Warn("the database is empty, and a new cluster begins in it, but a server has run with this data directory before: "+
			"if there were objects, stop this one, and put the database back where --datastore says, or restore a backup", "dataDir", dataDir)
	}
}
