package main

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	netutils "k8s.io/utils/net"

	"github.com/rowlock/rowlock/resources/builtin"
	"github.com/rowlock/rowlock/server/controlplane"
)

// endpointReconcilers are the values of --endpoint-reconciler-type.
var endpointReconcilers = []string{"", "lease", "master-count", noReconciler}

const noReconciler = "none"

// serviceOptions are the flags about Services, with kube-apiserver's names.
type serviceOptions struct {
	builtin.ServiceNetwork
	// first is the address of the Service "kubernetes".
	first net.IP

	ranges    string
	advertise net.IP
	// reconciler is kube-apiserver's --endpoint-reconciler-type.
	reconciler string
	// external is the name by which clients reach the server; empty: its address.
	external string
}

func (o *serviceOptions) addFlags(flags *pflag.FlagSet) {
	o.ServiceNetwork = builtin.DefaultServiceNetwork()
	// This is a string and not a list: if the flag is given twice, the last value counts, as in kube-apiserver.
	flags.StringVar(&o.ranges, "service-cluster-ip-range", o.Ranges[0].String(),
		"`range` of the addresses of Services; two, one of each IP family and separated by a comma, for dual stack. The first start stores it "+
			"as the ServiceCIDR kubernetes; other ServiceCIDRs extend it")
	flags.Var(&o.NodePorts, "service-node-port-range", "`range` of the node ports of Services")
	flags.IPVar(&o.advertise, "advertise-address", nil,
		"`address` of the endpoint of the Service kubernetes (default: the host of --listen, or the address of the default route)")
	flags.StringVar(&o.external, "external-hostname", "",
		"`host` that /api and the issuer's documents name for this server (default: an address)")
}

// addReplacingFlags adds the flags that only the command kube-apiserver has.
func (o *serviceOptions) addReplacingFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.reconciler, "endpoint-reconciler-type", "lease",
		"`type` of the endpoints of the Service kubernetes: none writes none; with lease and master-count, which are the same here, the servers of the database are the endpoints")
}

// check refuses values of these flags with kube-apiserver's messages.
func (o *serviceOptions) check() (errs []error) {
	if !slices.Contains(endpointReconcilers, o.reconciler) {
		errs = append(errs, fmt.Errorf("Reconciler not implemented: %v", o.reconciler))
	}
	return errs
}

func (o *serviceOptions) complete() error {
	parsed, err := netutils.ParseCIDRs(strings.Split(o.ranges, ","))
	if err != nil || len(parsed) == 0 || len(parsed) > 2 {
		return usagef("--service-cluster-ip-range takes one range such as 10.43.0.0/16, or two")
	}
	if len(parsed) == 2 && netutils.IsIPv6CIDR(parsed[0]) == netutils.IsIPv6CIDR(parsed[1]) {
		return usagef("--service-cluster-ip-range: two ranges must be one of IPv4 and one of IPv6")
	}
	o.Ranges = nil
	for _, r := range parsed {
		if ones, bits := r.Mask.Size(); ones < minPrefix(bits) || bits-ones < 2 {
			return usagef("--service-cluster-ip-range: %s is too large or too small: from /%d to /%d", r, minPrefix(bits), bits-2)
		}
		o.Ranges = append(o.Ranges, *r)
	}
	if o.first, err = netutils.GetIndexedIP(parsed[0], 1); err != nil {
		return usagef("--service-cluster-ip-range: %v", err)
	}
	if o.NodePorts.Base == 0 {
		return usagef("--service-node-port-range must be of ports from 1 to 65535")
	}
	if ip := o.advertise; ip != nil && (ip.IsLoopback() || ip.IsUnspecified() || ip.IsLinkLocalUnicast() || ip.IsMulticast()) {
		return usagef("--advertise-address must be an address that other machines can reach")
	}
	return nil
}

// minPrefix is the shortest prefix of a range of Services, for addresses of a number of bits: upstream bounds the size of an IPv6 range.
func minPrefix(bits int) int {
	if bits == 32 {
		return 8
	}
	return 64
}

// network says how clients reach a server that listens on an address.
func (o *serveOptions) network(listening net.Addr, logger *slog.Logger) controlplane.Network {
	n := controlplane.Network{ServiceRanges: o.services.Ranges, NodePorts: o.services.NodePorts, Address: o.services.advertise,
		NoEndpoint: o.services.reconciler == noReconciler}
	tcp, ok := listening.(*net.TCPAddr)
	if !ok {
		return n
	}
	n.Port = tcp.Port
	if n.Address == nil {
		var err error
		// An endpoint cannot have a loopback address: it gets the address that other machines would use, as in upstream.
		if n.Address, err = utilnet.ResolveBindAddress(tcp.IP); err != nil {
			logger.Info("the Service kubernetes gets no endpoint: set --advertise-address", "error", err)
		}
	}
	if len(n.ServiceRanges) > 0 && n.Address != nil && !n.NoEndpoint && netutils.IsIPv6CIDR(&n.ServiceRanges[0]) != netutils.IsIPv6(n.Address) { // kube-apiserver does not start
		logger.Warn("the address of the server and the Service kubernetes are of different IP families, so pods do not reach the server by it: "+
			"set --advertise-address or --service-cluster-ip-range", "address", n.Address.String(), "range", n.ServiceRanges[0].String())
	}
	return n
}
