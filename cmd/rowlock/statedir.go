package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/rowlock/rowlock/resources/files"
)

// stateDir is the directory in which this platform keeps a program's persistent data: /var/lib for root,
// $XDG_STATE_HOME (XDG Base Directory Specification 0.8) for other users, and their counterparts on macOS and Windows.
// It is empty when the environment does not determine it.
func stateDir() string {
	var base string
	switch {
	case runtime.GOOS == "darwin":
		base, _ = os.UserConfigDir() // ~/Library/Application Support
	case runtime.GOOS == "windows":
		base, _ = os.UserCacheDir() // %LocalAppData%
	case os.Geteuid() == 0:
		base = "/var/lib"
	default:
		base = userStateHome(os.Getenv("XDG_STATE_HOME"))
	}
	if base == "" {
		return ""
	}
	return filepath.Join(base, "rowlock")
}

// userStateHome ignores a relative $XDG_STATE_HOME, as the specification demands.
func userStateHome(xdg string) string {
	if filepath.IsAbs(xdg) {
		return xdg
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".local", "state")
}

func addDataDirFlag(flags *pflag.FlagSet, dir *string) {
	flags.StringVar(dir, "data-dir", stateDir(),
		"`directory` of the database, the certificates and admin.kubeconfig")
}

// absoluteDataDir validates --data-dir and makes it absolute, so that printed paths hold in another working directory.
func absoluteDataDir(dir string) (string, error) {
	if dir == "" {
		return "", usagef("--data-dir is required: it is empty, or this environment has no home directory to derive it from")
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("--data-dir: %w", err)
	}
	if found, err := os.Stat(abs); err == nil && !found.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return "", fmt.Errorf("--data-dir %s: not a directory: there is a file in its place", abs)
	}
	return abs, nil
}

// makeDataDir creates --data-dir before any file in it. The error for a default directory names the flag that sets another.
func makeDataDir(dir string) error {
	if err := files.MakeDir(dir); err != nil {
		return fmt.Errorf("--data-dir %s: %w", dir, err)
	}
	return nil
}
