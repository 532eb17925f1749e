package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// run runs a Pod until ctx ends.
func (n *node) run(ctx context.Context, p *corev1.Pod) error {
	if err := n.report(ctx, p, waitingStatus(p)); err != nil {
		return err
	}
	ip := n.nextIP()
	box, err := newSandbox(ctx, n.podDir(p), ip, servicePorts(p), n.api, n.server)
	if err != nil {
		return err
	}
	defer box.close()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var running sync.WaitGroup
	defer func() {
		stop()
		running.Wait()
	}()
	codes, ends := make([]int32, len(p.Spec.Containers)), make(chan struct{}, len(p.Spec.Containers))
	for i := range p.Spec.Containers {
		container := &p.Spec.Containers[i]
		program, runs := images[imageName(container.Image)]
		if !runs {
			continue // it never ends
		}
		root, err := n.prepare(ctx, box, p, container, program)
		if err != nil {
			return err
		}
		running.Go(func() {
			codes[i] = n.keep(ctx, box, root, p, container, program)
			ends <- struct{}{}
		})
	}
	for i := range p.Spec.Containers {
		if err := awaitReady(ctx, ip, p.Spec.Containers[i].ReadinessProbe); err != nil {
			return err
		}
	}
	if err := n.report(ctx, p, runningStatus(p, ip)); err != nil {
		return err
	}
	for range p.Spec.Containers {
		select {
		case <-ctx.Done():
			return nil
		case <-ends:
		}
	}
	if err := n.report(ctx, p, endedStatus(p, codes)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// prepare makes the root directory of a container as soon as all that its volumes refer to exists and the node may read it.
func (n *node) prepare(ctx context.Context, box *sandbox, p *corev1.Pod, container *corev1.Container, program image) (root string, err error) {
	files := map[string][]byte{"/etc/hosts": []byte("127.0.0.1 localhost\n" + box.api.Addr().String() + " kubernetes.default.svc kubernetes.default.svc.cluster.local\n")}
	err = retry(ctx, func(ctx context.Context) error {
		for _, mount := range container.VolumeMounts {
			content, err := n.volume(ctx, p, mount.Name)
			if err != nil {
				return fmt.Errorf("volume %s: %w", mount.Name, err)
			}
			for name, data := range content {
				files[path.Join(mount.MountPath, name)] = data
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return box.prepare(container.Name, program, files)
}

// keep runs a container, and again when it has ended and the Pod says so. It returns the exit code.
func (n *node) keep(ctx context.Context, box *sandbox, root string, p *corev1.Pod, container *corev1.Container, program image) int32 {
	env := []string{"KUBERNETES_SERVICE_HOST=" + box.api.Addr().String(), fmt.Sprint("KUBERNETES_SERVICE_PORT=", box.api.Port()), "HOSTNAME=" + p.Name}
	for _, v := range container.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	for {
		err := box.run(ctx, root, container, program, env)
		if ctx.Err() != nil || err == nil && p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			return 0
		}
		if err == nil {
			err = errors.New("exit status 0")
		}
		n.complain(p, fmt.Errorf("container %s ended: %w", container.Name, err))
		if p.Spec.RestartPolicy == corev1.RestartPolicyNever {
			if exit := (&exec.ExitError{}); errors.As(err, &exit) {
				return int32(exit.ExitCode())
			}
			return 1
		}
		select {
		case <-ctx.Done():
			return 0
		case <-time.After(time.Second):
		}
	}
}

// awaitReady sends the requests of a probe until one succeeds. It disregards the probe's delay: what is ready may be used.
func awaitReady(ctx context.Context, ip netip.Addr, probe *corev1.Probe) error {
	if probe == nil || probe.HTTPGet == nil {
		return nil
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // as kubelets
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Second}
	get := probe.HTTPGet
	url := strings.ToLower(string(get.Scheme)) + "://" + net.JoinHostPort(ip.String(), get.Port.String()) + get.Path
	return retry(ctx, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return nil
	})
}

// imageName is the name of an image without registry, tag and digest.
func imageName(reference string) string {
	name, _, _ := strings.Cut(path.Base(reference), "@")
	name, _, _ = strings.Cut(name, ":")
	return name
}
