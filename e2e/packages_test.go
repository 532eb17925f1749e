package e2e

import (
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/sqlstore/pgtest"
)

// packaged has the architectures that packages are built for, by make's names, with those of Debian and RPM.
var packaged = map[string]map[string]string{
	"amd64": {"deb": "amd64", "rpm": "x86_64"},
	"arm64": {"deb": "arm64", "rpm": "aarch64"},
	"armv7": {"deb": "armhf", "rpm": "armv7hl"},
}

// TestPackages builds all packages, if dpkg is available, and checks their names, architectures and files. Those for this machine are installed, each in
// an empty root. The command of the unit, with the configuration of the package, becomes ready and tells systemd so. Packages for other machines have
// a stub in place of the program.
func TestPackages(t *testing.T) {
	if database.url != "" {
		return // their content does not depend on the database
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg here: it is Debian's")
	}
	look := func() string {
		path, _ := exec.LookPath("rpm")
		return path
	}
	if _, err := pgtest.Find(look, "rpm", "there is no rpm here"); err != nil {
		t.Fatal(err)
	}
	arch := runtime.GOARCH
	if arch == "arm" {
		arch = "armv7"
	}
	buildPackages(t, arch)
	want := packageFiles(t, "deb", "amd64")
	for other := range packaged {
		for _, kind := range []string{"deb", "rpm"} {
			if got := packageFiles(t, kind, other); !maps.Equal(want, got) {
				t.Errorf("the %s of %s has %v, and the deb of amd64 %v", kind, other, got, want)
			}
		}
	}
	for _, file := range []string{"/usr/share/man/man1/rowlock-serve.1", "/usr/share/bash-completion/completions/rowlock", "/usr/share/doc/rowlock/copyright",
		"/usr/share/zsh/vendor-completions/_rowlock", "/usr/share/fish/vendor_completions.d/rowlock.fish", "/usr/bin/rowlock", "/etc/rowlock/config.yaml"} {
		if want[file] == "" {
			t.Errorf("there is no %s", file)
		}
	}
	for file, mode := range want {
		if (mode == "-rwxr-xr-x") != (file == "/usr/bin/rowlock") || mode != "-rw-r--r--" && mode != "-rwxr-xr-x" {
			t.Errorf("the mode of %s is %s", file, mode)
		}
	}
	if packaged[arch] == nil {
		return // there is none for this machine
	}
	t.Run("deb", func(t *testing.T) { installDeb(t, packageFile(t, "deb", arch)) })
	t.Run("rpm", func(t *testing.T) { installRPM(t, packageFile(t, "rpm", arch)) })
}

// buildPackages runs make packages with a umask that hides files from others, which the modes of packaged files do not depend on. It builds the program
// for one architecture.
func buildPackages(t *testing.T, arch string) {
	t.Helper()
	stub := filepath.Join(t.TempDir(), "stub")
	if err := os.WriteFile(stub, []byte("#!/bin/sh\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "sh", "-c", "umask 077; exec make -C .. packages")
	build.Env = append(os.Environ(), "MAKEFLAGS=") // the value from the make that runs the tests names pipes that are not passed on
	for other := range packaged {
		if other != arch {
			build.Env = append(build.Env, "BINARY_"+other+"="+stub)
		}
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// packageFile is the one package of a kind for an architecture.
func packageFile(t *testing.T, kind, arch string) string {
	t.Helper()
	found, err := filepath.Glob("../bin/packages/rowlock*" + packaged[arch][kind] + "." + kind)
	if err != nil || len(found) != 1 {
		t.Fatalf("packages (%s) for %s: %q %v", kind, arch, found, err)
	}
	return found[0]
}

// packageFiles returns the modes of the files in a package, after checking that they are root's and that the package is for the architecture.
func packageFiles(t *testing.T, kind, arch string) map[string]string {
	t.Helper()
	file := packageFile(t, kind, arch)
	about, list := []string{"dpkg-deb", "--show", "--showformat=${Package} ${Architecture}", file}, []string{"dpkg-deb", "--contents", file}
	if kind == "rpm" {
		about, list = []string{"rpm", "--query", "--queryformat=%{NAME} %{ARCH}", "--package", file}, []string{"rpm", "--query", "--list", "--verbose", "--package", file}
	}
	if got := output(t, about); got != "rowlock "+packaged[arch][kind] {
		t.Errorf("%s is for %s", file, got)
	}
	modes := map[string]string{}
	for line := range strings.Lines(output(t, list)) {
		words := strings.Fields(line)
		mode, path := words[0], strings.TrimPrefix(words[len(words)-1], ".")
		if !regexp.MustCompile(`\broot[ /]+root\b`).MatchString(line) || strings.HasPrefix(mode, "d") && mode != "drwxr-xr-x" {
			t.Errorf("%s: %s", file, line)
		}
		if !strings.HasPrefix(mode, "d") {
			modes[path] = mode
		}
	}
	return modes
}

func output(t *testing.T, command []string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), command[0], command[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

// installDeb installs a Debian package in an empty root, serves from there, and removes the package, which leaves the configuration only.
func installDeb(t *testing.T, deb string) {
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg := []string{"dpkg", "--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-architecture", "--log=/dev/null"}
	output(t, append(dpkg, "--install", deb))
	serveFromUnit(t, root)
	output(t, append(dpkg, "--remove", "rowlock"))
	if left := filesBelow(t, root, "var/lib/dpkg"); !slices.Equal(left, []string{"etc/rowlock/config.yaml"}) {
		t.Errorf("left behind: %q", left)
	}
}

// installRPM installs an RPM package in an empty root, serves from there, and removes the package, which leaves nothing: rpm keeps a configuration
// only if it was changed. The scripts need a shell, which an empty root lacks; they are those of the Debian package.
func installRPM(t *testing.T, file string) {
	root, records := t.TempDir(), "var/lib/rpm"
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	rpm := []string{"rpm", "--root=" + root, "--dbpath=/" + records, "--noscripts"}
	if os.Geteuid() != 0 {
		rpm = append([]string{"unshare", "--map-root-user"}, rpm...) // for chroot
	}
	for _, script := range []string{"../packaging/postinstall.sh", "../packaging/preremove.sh"} {
		text, err := os.ReadFile(script)
		if scripts := output(t, []string{"rpm", "--query", "--scripts", "--package", file}); err != nil || !strings.Contains(scripts, strings.TrimSpace(string(text))) {
			t.Errorf("%s is not among the scripts (%v):\n%s", script, err, scripts)
		}
	}
	output(t, append(rpm, "--install", "--nodeps", file))
	serveFromUnit(t, root)
	output(t, append(rpm, "--erase", "rowlock"))
	if left := filesBelow(t, root, records); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// filesBelow returns the files below root, but not those below the directory of the program that installs packages.
func filesBelow(t *testing.T, root, records string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); err == nil && !d.IsDir() && !strings.HasPrefix(name, records) {
			files = append(files, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// serveFromUnit starts the command of the unit that is installed below root, in place of systemd, until it reports that it is ready.
func serveFromUnit(t *testing.T, root string) {
	t.Helper()
	unit, err := os.ReadFile(filepath.Join(root, "usr/lib/systemd/system/rowlock.service"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^ExecStart=(.*)$`).FindSubmatch(unit)
	if found == nil {
		t.Fatalf("the unit starts nothing:\n%s", unit)
	}
	command := strings.Fields(string(found[1]))
	for i, word := range command {
		if strings.HasPrefix(word, "/") {
			command[i] = filepath.Join(root, word)
		}
	}
	data := t.TempDir()
	serveUntilReady(t, command, []string{"ROWLOCK_DATA_DIR=" + data, "ROWLOCK_LISTEN=127.0.0.1:0"}, func() {
		if answer := (kubectl{}).run(t, "--kubeconfig", filepath.Join(data, "admin.kubeconfig"), "get", "--raw", "/readyz"); answer != "ok" {
			t.Errorf("/readyz: %s", answer)
		}
	})
}

// serveUntilReady starts a server, waits until it reports that it is ready, as systemd would, calls ask, and stops the server.
func serveUntilReady(t *testing.T, command, env []string, ask func()) {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	server := exec.CommandContext(t.Context(), command[0], command[1:]...)
	server.Env = append(env, "NOTIFY_SOCKET="+socket.LocalAddr().String())
	var log strings.Builder
	server.Stderr = &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- server.Wait()
		socket.Close()
	}()
	message := [64]byte{}
	n, err := socket.Read(message[:])
	if err != nil || string(message[:n]) != "READY=1" {
		t.Fatalf("told %q, %v; %s", message[:n], err, log.String())
	}
	ask()
	if err := server.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("after an interrupt: %v\n%s", err, log.String())
	}
}
