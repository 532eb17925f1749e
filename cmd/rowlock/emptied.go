package main

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/rowlock/rowlock/server/pki"
	"github.com/rowlock/rowlock/sqlstore"
)

// warnEmptied warns that a database is empty, without even the namespaces that each database has after the first start, although the data directory
// has the kubeconfig that a server writes once it has started. That may be intended. The database may also have been lost, moved or not mounted.
// Clients then still authenticate, but find no objects: kubelets, for example, end all Pods.
func warnEmptied(logger *slog.Logger, store *sqlstore.Store, dataDir string) {
	if store.Amount("namespaces").Objects > 0 {
		return
	}
	if _, err := os.Lstat(filepath.Join(dataDir, pki.KubeconfigName)); err == nil {
		logger.Warn("the database is empty, and a new cluster begins in it, but a server has run with this data directory before: "+
			"if there were objects, stop this one, and put the database back where --datastore says, or restore a backup", "dataDir", dataDir)
	}
}
