package upstream

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The page on upgrading to a new release explains every test of this package, and names no test that does not exist.
func TestUpgradingNamesTests(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "docs", "upgrading.md"))
	if err != nil {
		t.Fatal(err)
	}
	declaration, all := regexp.MustCompile(`(?m)^func (Test\w+)\(`), map[string]bool{}
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		source, err := os.ReadFile(name)
		for _, m := range declaration.FindAllSubmatch(source, -1) {
			all[string(m[1])] = true
			if filepath.Dir(name) == filepath.Join(root, "resources", "upstream") && !strings.Contains(string(page), "`"+string(m[1])+"`") && !ofRowlock[string(m[1])] {
				t.Errorf("docs/upgrading.md does not say what it means when %s fails", m[1])
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(string(page), -1) {
		if !all[name[1]] {
			t.Errorf("docs/upgrading.md names %s, which is not there", name[1])
		}
	}
}

// ofRowlock are tests that do not depend on a release.
var ofRowlock = map[string]bool{"TestReachesAreFound": true, "TestGatesThatAreRefused": true, "TestWatchesAreNotCompressedByDefault": true,
	"TestUpgradingNamesTests": true, "TestEachIsListedAndTested": true}
