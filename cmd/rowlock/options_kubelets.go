package main

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/kubernetes/pkg/kubelet/client"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/resources/upstream"
)

// kubeletOptions configure the connections to kubelets, for logs, exec, attach, port-forward and proxies.
type kubeletOptions struct {
	certFile, keyFile, caFile string
	addresses                 []string
}

func (o *kubeletOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.certFile, "kubelet-client-certificate", "", "`file` with the client certificate for kubelets")
	flags.StringVar(&o.keyFile, "kubelet-client-key", "", "`file` with the key of --kubelet-client-certificate")
	flags.StringVar(&o.caFile, "kubelet-certificate-authority", "",
		"`file` with the certificate authorities of kubelets (default: any certificate is accepted)")
	flags.StringSliceVar(&o.addresses, "kubelet-preferred-address-types", upstream.KubeletAddresses(),
		"types of `addresses` of a node for connections to its kubelet; the first type that the node has is used")
}

// complete validates the flags.
func (o *kubeletOptions) complete() error {
	if (o.certFile == "") != (o.keyFile == "") {
		return usagef("--kubelet-client-certificate and --kubelet-client-key need each other")
	}
	return nil
}

// kubelets reads the files.
func (o *kubeletOptions) kubelets() (*builtin.Kubelets, error) {
	k, err := builtin.NewKubelets(client.KubeletTLSConfig{CertFile: o.certFile, KeyFile: o.keyFile, CAFile: o.caFile}, o.addresses)
	if err != nil {
		return nil, fmt.Errorf("connecting to kubelets: %w", err)
	}
	return k, nil
}
