package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// runInOwnNetwork runs this program again, with other arguments, in a new network namespace: a network without any interface but a loopback one, where
// Pods can have addresses that no other program sees, and which ends with the program. A user other than root gets a user namespace, too, in which it
// may do that.
func runInOwnNetwork(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it stops its servers
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		cmd.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_NET_ADMIN, unix.CAP_NET_BIND_SERVICE, unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT}
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a network namespace, which needs root or the right to make user namespaces: %w", err)
	}
	return cmd.Wait()
}

// newNetwork makes a network namespace and gives its loopback interface an address.
func newNetwork(address netip.Prefix) (*os.File, error) {
	var made *os.File
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("a network namespace: %w", err)
		}
		if err := addAddress(address); err != nil {
			return err
		}
		var err error
		made, err = os.Open(threadNetwork)
		return err
	})
	return made, err
}

// inNetwork calls f on a thread within the network namespace, to which all sockets and processes that f makes then belong.
func inNetwork(network *os.File, f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(int(network.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return f()
	})
}

const threadNetwork = "/proc/thread-self/ns/net"

// onOwnThread calls f, which may leave its thread in another network namespace. The thread is brought back and used again: if it ended, so would the
// processes it started that are to end with their parent.
func onOwnThread(f func() error) error {
	runtime.LockOSThread()
	home, err := os.Open(threadNetwork)
	if err != nil {
		return err
	}
	defer home.Close()
	err = f()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("leave a network namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}

// addAddress turns the loopback interface of the thread's network namespace on and gives it an address. All addresses of its prefix are then local, as
// those of 127.0.0.0/8 are.
func addAddress(address netip.Prefix) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	up, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	up.SetUint16(unix.IFF_UP)
	ip, mask := address.Addr().As4(), netip.PrefixFrom(netip.AddrFrom4([4]byte{255, 255, 255, 255}), address.Bits()).Masked().Addr().As4()
	for _, step := range []struct {
		request uint
		value   []byte
	}{{unix.SIOCSIFFLAGS, nil}, {unix.SIOCSIFADDR, ip[:]}, {unix.SIOCSIFNETMASK, mask[:]}} {
		ifreq := up
		if step.value != nil {
			if ifreq, err = unix.NewIfreq("lo:1"); err != nil { // beside 127.0.0.1
				return err
			}
			if err := ifreq.SetInet4Addr(step.value); err != nil {
				return err
			}
		}
		if err := unix.IoctlIfreq(fd, step.request, ifreq); err != nil {
			return fmt.Errorf("give the loopback interface the address %s: %w", address, err)
		}
	}
	return nil
}
