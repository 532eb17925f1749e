package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/rowlock/rowlock/e2e/harness"
)

// image is what a container image has: a program, by the name of the binary that the harness builds and by its path in the image, and whether the image
// has a shell and its tools.
type image struct {
	binary, entrypoint string
	tools              bool
}

// images are those whose containers run, by their names without registry and tag. A container of any other image does nothing.
var images = map[string]image{
	"agnhost":          {"agnhost", "/agnhost", true},
	"busybox":          {"", "sh", true},
	"etcd":             {"etcd", "/usr/local/bin/etcd", false},
	"sample-apiserver": {"sample-apiserver", "/sample-apiserver", false},
}

// sandbox is where the containers of a Pod run: a network of their own, into and out of which TCP connections are forwarded. Each container has a root
// directory with the image's program and the files of the Pod's volumes.
type sandbox struct {
	api       netip.AddrPort // where the containers find the server
	dir       string
	network   *os.File
	listeners []net.Listener
	running   sync.WaitGroup
}

// newSandbox makes a sandbox. Connections to the ports of ip arrive there, and connections from there to api reach the server, a host and a port. If the
// Pod itself serves at the port of api, a container finds the server at another one.
func newSandbox(ctx context.Context, dir string, ip netip.Addr, ports []uint16, api netip.AddrPort, server string) (*sandbox, error) {
	for slices.Contains(ports, api.Port()) {
		api = netip.AddrPortFrom(api.Addr(), api.Port()+1)
	}
	s := &sandbox{api: api, dir: dir}
	var err error
	if s.network, err = newNetwork(netip.PrefixFrom(api.Addr(), 32)); err != nil {
		return nil, err
	}
	dialer := &net.Dialer{}
	for _, port := range ports {
		inside := fmt.Sprint("127.0.0.1:", port)
		err = errors.Join(err, s.forward(ctx, nil, netip.AddrPortFrom(ip, port).String(), func() (connection net.Conn, err error) {
			err = inNetwork(s.network, func() (err error) {
				connection, err = dialer.DialContext(ctx, "tcp", inside)
				return err
			})
			return connection, err
		}))
	}
	err = errors.Join(err, s.forward(ctx, s.network, api.String(), func() (net.Conn, error) { return dialer.DialContext(ctx, "tcp", server) }))
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// close ends the sandbox, whose containers have ended.
func (s *sandbox) close() {
	for _, listener := range s.listeners {
		listener.Close()
	}
	s.running.Wait()
	s.network.Close()
}

// forward listens at an address of a network, or of this program's own one (nil), and connects whoever connects with what dial returns.
func (s *sandbox) forward(ctx context.Context, network *os.File, address string, dial func() (net.Conn, error)) error {
	var listener net.Listener
	listen := func() (err error) {
		listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		return err
	}
	var err error
	if network == nil {
		err = listen()
	} else {
		err = inNetwork(network, listen)
	}
	if err != nil {
		return err
	}
	s.listeners = append(s.listeners, listener)
	s.running.Go(func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			s.running.Go(func() {
				defer from.Close()
				to, err := dial()
				if err != nil {
					return
				}
				defer to.Close()
				join(ctx, from, to)
			})
		}
	})
	return nil
}

// join copies in both directions until one of them has ended.
func join(ctx context.Context, a, b net.Conn) {
	stop := context.AfterFunc(ctx, func() {
		a.Close()
		b.Close()
	})
	defer stop()
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		done <- struct{}{}
	}
	go pipe(a, b)
	go pipe(b, a)
	<-done
	a.Close()
	b.Close()
	<-done
}

// prepare makes the root directory of a container with the program of its image and files by their paths.
func (s *sandbox) prepare(name string, program image, files map[string][]byte) (string, error) {
	root := filepath.Join(s.dir, name)
	if err := os.MkdirAll(filepath.Join(root, "tmp"), 0o700); err != nil {
		return "", err
	}
	for file, data := range files {
		file = filepath.Join(root, path.Clean("/"+file))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(file, data, 0o644); err != nil { // the mode that volumes have by default
			return "", err
		}
	}
	if program.binary == "" {
		return root, nil
	}
	binary := filepath.Join(root, program.entrypoint)
	if err := os.MkdirAll(filepath.Dir(binary), 0o700); err != nil {
		return "", err
	}
	return root, copyFile(binary, harness.Binary(program.binary))
}

// run runs a container until it ends, or until ctx does.
func (s *sandbox) run(ctx context.Context, root string, container *corev1.Container, program image, env []string) error {
	log, err := os.OpenFile(root+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	command := container.Command
	if len(command) == 0 {
		command = []string{program.entrypoint}
	}
	cmd := containerCommand(ctx, root, program.tools, env, append(command[:len(command):len(command)], container.Args...))
	cmd.Stdout, cmd.Stderr = log, log
	if err := inNetwork(s.network, cmd.Start); err != nil {
		return err
	}
	return cmd.Wait()
}

func copyFile(to, from string) error {
	if os.Link(from, to) == nil {
		return nil
	}
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o700)
}

// servicePorts are the ports at which a container of the Pod may serve: those that it declares and those of its probes.
func servicePorts(pod *corev1.Pod) []uint16 {
	var ports []uint16
	add := func(port string) {
		if number, err := strconv.ParseUint(port, 10, 16); err == nil && !slices.Contains(ports, uint16(number)) {
			ports = append(ports, uint16(number))
		}
	}
	for _, container := range pod.Spec.Containers {
		for _, port := range container.Ports {
			add(fmt.Sprint(port.ContainerPort))
		}
		if probe := container.ReadinessProbe; probe != nil && probe.HTTPGet != nil {
			add(probe.HTTPGet.Port.String())
		}
	}
	return ports
}
