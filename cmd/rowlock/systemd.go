package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/rowlock/rowlock/server/pki"
)

// tell notifies systemd of a state (sd_notify(3)); without systemd it does nothing. A failed notification does not stop the server.
func tell(logger *slog.Logger, state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		logger.Warn("systemd was not told", "state", state, "error", err)
	}
}

// attend notifies systemd that the server is ready, and until ctx ends that it is alive. kubeconfig is the administrator's.
func attend(ctx context.Context, logger *slog.Logger, kubeconfig string) {
	tell(logger, daemon.SdNotifyReady)
	watchdog(ctx, logger, kubeconfig)
	<-ctx.Done()
	tell(logger, daemon.SdNotifyStopping)
}

// watchdog notifies systemd that the server is alive, as often as the unit requires (WatchdogSec), as long as the server answers
// requests: systemd restarts a server that does not. It sends the requests as the administrator whose kubeconfig is given, whatever
// context users have chosen in it, and by what it last said if they have moved it. It returns when ctx ends.
func watchdog(ctx context.Context, logger *slog.Logger, kubeconfig string) {
	within, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		logger.Warn("the watchdog of systemd is not served", "error", err)
		return
	}
	if within == 0 {
		return
	}
	ticker := time.NewTicker(within / 3)
	defer ticker.Stop()
	var config *rest.Config
	for {
		if now, err := ownConfig(kubeconfig); err == nil {
			config = now
		} else if config == nil {
			logger.Error("systemd is not told that the server lives", "error", err)
			return
		}
		switch err := live(ctx, config, within/3); {
		case err == nil:
			tell(logger, daemon.SdNotifyWatchdog)
		case ctx.Err() == nil:
			logger.Error("systemd is not told that the server lives", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// ownConfig returns what a kubeconfig that a server maintains says of this server.
func ownConfig(kubeconfig string) (*rest.Config, error) {
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: pki.KubeconfigEntry}).ClientConfig()
}

// livePath does not fail for the servers of APIServices, which a start asks what they serve: a restart would ask them again.
const livePath = "/livez?exclude=poststarthook/apiservice-discovery-controller"

// live requests /livez from a server, on a new connection. Errors: there is no positive answer in time.
func live(ctx context.Context, config *rest.Config, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+livePath, nil)
	if err != nil {
		return err
	}
	response, err := (&http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/livez: %s", response.Status)
	}
	return nil
}
