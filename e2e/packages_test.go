package e2e

import (
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// TestPackage installs the Debian package in an empty root, if dpkg is available. The command of its unit, with the configuration of the package,
// becomes ready and tells systemd so. Removing the package leaves only the configuration.
func TestPackage(t *testing.T) {
	if database.url != "" {
		return // its content does not depend on the database
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("there is no dpkg here: it is Debian's")
	}
	build := exec.CommandContext(t.Context(), "make", "-C", "..", "packages", "ARCHS="+runtime.GOARCH)
	build.Env = append(os.Environ(), "MAKEFLAGS=") // the value from the make that runs the tests names pipes that are not passed on
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, kind := range []string{"deb", "rpm"} {
		if found, err := filepath.Glob("../bin/packages/*." + kind); err != nil || len(found) != 1 {
			t.Fatalf("packages: %v %v", found, err)
		}
	}
	debs, _ := filepath.Glob("../bin/packages/*.deb")
	root := t.TempDir()
	for _, dir := range []string{"var/lib/dpkg/updates", "var/lib/dpkg/info"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dpkg := func(args ...string) {
		t.Helper()
		all := append([]string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--force-architecture", "--log=/dev/null"}, args...)
		if out, err := exec.CommandContext(t.Context(), "dpkg", all...).CombinedOutput(); err != nil {
			t.Fatalf("dpkg %v: %v\n%s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg("--install", debs[0])
	for _, file := range []string{"usr/share/man/man1/rowlock-serve.1", "usr/share/bash-completion/completions/rowlock", "usr/share/doc/rowlock/copyright"} {
		if info, err := os.Stat(filepath.Join(root, file)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", file, err)
		}
	}
	serveFromUnit(t, root)
	dpkg("--remove", "rowlock")
	var left []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(root, path); err == nil && !d.IsDir() && !strings.HasPrefix(name, "var/lib/dpkg") {
			left = append(left, name)
		}
		return err
	})
	if err != nil || len(left) != 1 || left[0] != "etc/rowlock/config.yaml" {
		t.Errorf("left behind: %q %v", left, err)
	}
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
