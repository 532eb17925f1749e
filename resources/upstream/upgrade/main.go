// Command upgrade puts another release of Kubernetes into every go.mod that names one, and into resources/upstream.
// docs/upgrading.md describes the remaining steps.
//
//	make upgrade VERSION=v1.38.0
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: make upgrade VERSION=v1.38.0, in the root of the repository")
		os.Exit(2)
	}
	if err := run(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "upgrade:", err)
		os.Exit(1)
	}
}

const kubernetes = "k8s.io/kubernetes"

var release = regexp.MustCompile(`^v1\.(\d+)\.\d+(-(alpha|beta|rc)\.\d+)?$`)

func run(root, version string) error {
	m := release.FindStringSubmatch(version)
	if m == nil {
		return fmt.Errorf("%s is no release of Kubernetes: it looks like v1.38.0", version)
	}
	staging, err := stagingOf(version)
	if err != nil {
		return err
	}
	was, err := current(root)
	if err != nil {
		return err
	}
	folders, err := modules(root)
	if err != nil {
		return err
	}
	if err := setConstants(filepath.Join(root, "resources", "upstream", "release.go"), version, m[1]); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := upgrade(folder, was, version, staging); err != nil {
			return fmt.Errorf("%s: %w", folder, err)
		}
	}
	return nil
}

// stagingVersion is the version under which a release publishes its staging modules.
func stagingVersion(version string) string { return "v0." + strings.TrimPrefix(version, "v1.") }

// goMod has the used fields of `go mod edit -json`.
type goMod struct {
	Require []struct{ Path, Version string }
	Replace []struct {
		Old, New struct{ Path, Version string }
	}
	Tool []struct{ Path string }
}

func read(file string) (mod goMod, err error) {
	out, err := exec.Command("go", "mod", "edit", "-json", file).Output()
	if err != nil {
		return mod, fmt.Errorf("read %s: %w", file, said(err))
	}
	return mod, json.Unmarshal(out, &mod)
}

// said is an error with the command's output.
func said(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return err
}

// stagingOf returns the staging modules of Kubernetes, as a release lists them: those that its go.mod replaces by folders of
// its repository.
func stagingOf(version string) (map[string]bool, error) {
	out, err := exec.Command("go", "mod", "download", "-json", kubernetes+"@"+version).Output()
	if err != nil {
		return nil, fmt.Errorf("download %s %s: %w", kubernetes, version, said(err))
	}
	var downloaded struct{ GoMod string }
	if err := json.Unmarshal(out, &downloaded); err != nil {
		return nil, err
	}
	mod, err := read(downloaded.GoMod)
	if err != nil {
		return nil, err
	}
	staging := map[string]bool{}
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.New.Path, "./staging/") {
			staging[r.Old.Path] = true
		}
	}
	if len(staging) < 20 {
		return nil, fmt.Errorf("%s %s is developed with %d modules only", kubernetes, version, len(staging))
	}
	return staging, nil
}

// modules returns the folders with a go.mod.
func modules(root string) (folders []string, err error) {
	err = filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "bin" || entry.Name() == ".git"):
			return filepath.SkipDir
		case entry.Name() == "go.mod":
			folders = append(folders, filepath.Dir(name))
		}
		return nil
	})
	return folders, err
}

// current returns the release that the root module requires. The root's go.mod is changed last, so that an interrupted upgrade
// can start again.
func current(root string) (string, error) {
	mod, err := read(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", err
	}
	for _, r := range mod.Require {
		if r.Path == kubernetes {
			return r.Version, nil
		}
	}
	return "", fmt.Errorf("go.mod does not need %s", kubernetes)
}

// upgrade changes the go.mod of a folder, and go.sum with it.
func upgrade(folder, was, version string, staging map[string]bool) error {
	mod, err := read(filepath.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	edits, wanted := edits(mod, was, version, staging)
	switch {
	case len(edits) > 0: // the module requires Kubernetes itself, with all of its modules
		if err := in(folder, append([]string{"mod", "edit"}, edits...)...); err != nil {
			return err
		}
		return in(folder, "mod", "tidy")
	case len(wanted) == 0:
		return nil
	}
	// A go.mod of requirements only, which tidy would remove, lists the requirements of tests that run in another module.
	if err := in(folder, append([]string{"get"}, wanted...)...); err != nil || len(mod.Tool) == 0 {
		return err
	}
	return in(folder, "mod", "tidy")
}

// edits returns the arguments of `go mod edit` for a module that requires Kubernetes itself or, for any other, those of `go
// get` for the Kubernetes modules that it requires in the release before. Other requirements stay: they come from a module's
// own releases.
func edits(mod goMod, was, version string, staging map[string]bool) (edits, wanted []string) {
	at := stagingVersion(version)
	for _, r := range mod.Require {
		switch {
		case r.Path == kubernetes:
			edits = append(edits, "-require="+kubernetes+"@"+version)
		case staging[r.Path] && r.Version == stagingVersion(was):
			wanted = append(wanted, r.Path+"@"+at)
		}
	}
	if len(edits) == 0 {
		return nil, wanted
	}
	for _, r := range mod.Require {
		// v0.0.0 is the version in Kubernetes' own go.mod; tidy removes the requirement of a module that no longer exists.
		if staging[r.Path] && r.Version != "v0.0.0" {
			edits = append(edits, "-require="+r.Path+"@"+at)
		}
	}
	for _, r := range mod.Replace {
		if strings.HasPrefix(r.Old.Path, "k8s.io/") && !staging[r.Old.Path] {
			edits = append(edits, "-dropreplace="+r.Old.Path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(staging)) {
		edits = append(edits, "-replace="+path+"="+path+"@"+at)
	}
	return edits, nil
}

// in runs the go command in a folder, and shows its output.
func in(folder string, args ...string) error {
	fmt.Printf("cd %s; go %s\n", folder, strings.Join(args[:min(len(args), 2)], " "))
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, os.Stdout, os.Stderr
	return cmd.Run()
}

// setConstants writes a release into the file that declares it.
func setConstants(file, version, minor string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for pattern, with := range map[string]string{
		`(?m)^const Release = .*$`: `const Release = "` + version + `"`,
		`(?m)^const Minor = .*$`:   `const Minor = ` + minor,
	} {
		constant := regexp.MustCompile(pattern)
		if len(constant.FindAll(data, -1)) != 1 {
			return fmt.Errorf("%s has no line %s", file, pattern)
		}
		data = constant.ReplaceAllLiteral(data, []byte(with))
	}
	return os.WriteFile(file, data, 0o644)
}
