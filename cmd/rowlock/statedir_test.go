package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The error for a data directory that cannot be created names the flag for another one.
func TestDataDirThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := absoluteDataDir(path); err == nil || !strings.Contains(err.Error(), "--data-dir "+path+": not a directory: there is a file") {
			t.Errorf("%s: %v", path, err)
		}
		if err := makeDataDir(filepath.Join(path, "below")); err == nil || !strings.Contains(err.Error(), "--data-dir "+path) {
			t.Errorf("below %s: %v", path, err)
		}
	}
	if err := makeDataDir(filepath.Join(dir, "new", "one")); err != nil {
		t.Error(err)
	}
}
