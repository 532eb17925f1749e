package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/rowlock/rowlock/cmd/rowlock/parent"
)

// etcdName is the name under which the program replaces etcd beside kube-apiserver.
const etcdName = "etcd"

// newEtcdCommand returns the command that envtest starts as etcd. It stores nothing: rowlock kube-apiserver does not use it.
func newEtcdCommand() *cobra.Command {
	var clientURLs []string
	cmd := &cobra.Command{
		Use:    etcdName,
		Short:  "Answer envtest's health checks as etcd",
		Long:   "Answers health checks and stores nothing. 'rowlock envtest-assets' writes it as etcd.",
		Hidden: true,
		// etcd's other flags have no effect here.
		FParseErrWhitelist: cobra.FParseErrWhitelist{UnknownFlags: true},
		PersistentPreRunE:  func(*cobra.Command, []string) error { return nil }, // no environment variables
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := withParent(cmd.Context(), parent.ID)
			defer stop()
			return serveHealth(ctx, clientURLs)
		},
	}
	cmd.Flags().StringSliceVar(&clientURLs, "listen-client-urls", []string{"http://localhost:2379"}, "`URLs` to answer at")
	return cmd
}

// serveHealth answers health checks at each of the URLs until ctx ends.
func serveHealth(ctx context.Context, urls []string) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"health":"true","reason":""}`)
	})
	var listeners []net.Listener
	for _, u := range urls {
		parsed, err := url.Parse(u)
		if err != nil || parsed.Scheme != "http" {
			return fmt.Errorf("--listen-client-urls: %q is not of the form http://host:port", u)
		}
		listener, err := net.Listen("tcp", parsed.Host)
		if err != nil {
			return err
		}
		defer listener.Close()
		listeners = append(listeners, listener)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var work errgroup.Group
	for _, l := range listeners {
		work.Go(func() error { return server.Serve(l) })
	}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := work.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// withParent returns a context that ends when the process that started this one has ended (parent.ID, before or after the call). A test that is
// killed, or that panics, stops nothing; the processes that it started have to end nevertheless.
func withParent(ctx context.Context, pid int) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for os.Getppid() == pid {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	return ctx, cancel
}
