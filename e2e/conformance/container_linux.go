package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// machineDirs have the programs of the machine, such as a shell, and their libraries. They are links in some systems.
var machineDirs = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64"}

// containerCommand returns a command that runs in a root directory, and whether the programs of the machine are there, too. It runs this program, which
// does the rest (runInContainer).
func containerCommand(ctx context.Context, root string, tools bool, env, command []string) *exec.Cmd {
	args := []string{"-in-container", root}
	if tools {
		args = append(args, "-tools")
	}
	cmd := exec.CommandContext(ctx, "/proc/self/exe", append(append(args, "--"), command...)...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second // then it is killed
	return cmd
}

// runInContainer replaces this process, which has a mount namespace of its own, by a command in a root directory.
func runInContainer(root string, tools bool, command []string) error {
	if tools {
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return fmt.Errorf("a mount namespace: %w", err)
		}
		for _, dir := range machineDirs {
			if err := bind(dir, filepath.Join(root, dir)); err != nil {
				return fmt.Errorf("%s in a container: %w", dir, err)
			}
		}
	}
	if err := unix.Chroot(root); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	return unix.Exec(program, command, os.Environ())
}

// bind makes a directory of the machine appear at another path, to be read.
func bind(dir, at string) error {
	info, err := os.Lstat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(dir)
		if err != nil {
			return err
		}
		if err := os.Symlink(target, at); !errors.Is(err, os.ErrExist) { // from an earlier run in the container
			return err
		}
		return nil
	}
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return nil // it cannot write there, and may not be allowed to do the following
	}
	return unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
}
